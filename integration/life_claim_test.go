package integration_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// add enqueues a plain task.
func (e *env) add(t testing.TB, p gen.EnqueueParams) uuid.UUID {
	t.Helper()
	if p.TaskName == "" {
		p.TaskName = "work"
	}
	p.Namespace = &e.ns
	receipt, err := gen.Enqueue(t.Context(), e.pool, p)
	if err != nil {
		t.Fatal(err)
	}
	return *receipt.TaskID
}

func (e *env) claimMany(t testing.TB, db gen.DB, lease uuid.UUID, most int, queues ...string) []gen.ClaimedTask {
	t.Helper()
	claimed, err := gen.Claim(t.Context(), db, gen.ClaimParams{LeaseID: lease, Queues: queues, MaxTasks: &most, Namespace: &e.ns})
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// L1: queues in the order given, then higher priority, then earlier due time, then id; what is not due is left.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.stop(t, now)
	early, late := now.Add(-2*time.Hour), now.Add(-time.Hour)
	other := e.add(t, gen.EnqueueParams{Queue: ptr("other"), Priority: ptr(100)})
	e.add(t, gen.EnqueueParams{Priority: ptr(100), Delay: ptr(time.Second)})
	e.add(t, gen.EnqueueParams{Queue: ptr("not asked for")})
	low := e.add(t, gen.EnqueueParams{Priority: ptr(-5), RunAfter: &early})
	lateTask := e.add(t, gen.EnqueueParams{RunAfter: &late})
	earlyTask := e.add(t, gen.EnqueueParams{RunAfter: &early})
	twins := []uuid.UUID{e.add(t, gen.EnqueueParams{Priority: ptr(7)}), e.add(t, gen.EnqueueParams{Priority: ptr(7)})}
	if twins[0].String() > twins[1].String() {
		twins[0], twins[1] = twins[1], twins[0]
	}
	var got []uuid.UUID
	for _, c := range e.claimMany(t, e.pool, e.lease(t, time.Minute), 100, "default", "other") {
		got = append(got, c.ID)
	}
	want := []uuid.UUID{twins[0], twins[1], earlyTask, lateTask, low, other}
	if show(got) != show(want) {
		t.Errorf("claimed %s, want %s", show(got), show(want))
	}
	clock.forward(t, time.Second)
	if rest := e.claimMany(t, e.pool, e.lease(t, time.Minute), 100, "default"); len(rest) != 1 {
		t.Errorf("when it was due, claim gave %s", show(rest))
	}
	checkInvariants(t, e.pool)
}

// L1: a claim passes over rows that another claim holds uncommitted, and waits for nothing.
func TestClaimPassesOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, second := e.add(t, gen.EnqueueParams{}), e.add(t, gen.EnqueueParams{Delay: ptr(time.Microsecond)})
	lease := e.lease(t, time.Minute)
	tx, err := e.session(t, readCommitted).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := e.claimMany(t, tx, lease, 1); len(c) != 1 || c[0].ID != first {
		t.Fatalf("claimed %s", show(c))
	}
	impatient := e.session(t, readCommitted)
	exec(t, impatient, "set lock_timeout = '1ms'")
	if c := e.claimMany(t, impatient, e.lease(t, time.Minute), 10); len(c) != 1 || c[0].ID != second {
		t.Errorf("claimed %s, want %s", show(c), second)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := e.claimMany(t, e.pool, lease, 10); len(c) != 1 || c[0].ID != first || c[0].Attempt != 1 {
		t.Errorf("claimed %s, want %s", show(c), first)
	}
}

// L2: claims, reaps and hand-backs raise the lease number or end it; an outcome with an old one changes nothing. case_C15.
func TestLeaseNumberFences(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.add(t, gen.EnqueueParams{})
	dead := e.lease(t, 100*time.Millisecond)
	zombie := e.claim(t, e.pool, dead, id)
	e.expire(t, dead)
	if r := e.reap(t, e.pool); r.Requeued != 1 {
		t.Fatalf("reaped %s", show(r))
	}
	current := e.claim(t, e.pool, e.lease(t, time.Minute), id)
	if current.LeaseNumber != zombie.LeaseNumber+2 || current.Attempt != 2 {
		t.Errorf("claimed %s after %s", show(current), show(zombie))
	}
	before := e.task(t, id)
	e.wantFenced(t, zombie)
	if after := e.task(t, id); show(after) != show(before) {
		t.Errorf("a zombie changed %s to %s", show(before), show(after))
	}
	e.complete(t, e.pool, current)
	e.wantFenced(t, current)
	checkInvariants(t, e.pool)
}

// wantFenced wants every write of an execution to be refused.
func (e *env) wantFenced(t testing.TB, c gen.ClaimedTask) {
	t.Helper()
	ctx := t.Context()
	complete, err := gen.Complete(ctx, e.pool, gen.CompleteParams{TaskID: c.ID, LeaseNumber: c.LeaseNumber, Namespace: &e.ns})
	if err != nil || complete != gen.WriteResultLeaseLost {
		t.Errorf("complete: %s, %v", complete, err)
	}
	many, err := gen.CompleteMany(ctx, e.pool, gen.CompleteManyParams{TaskIDs: []uuid.UUID{c.ID}, LeaseNumbers: []int{c.LeaseNumber}, Namespace: &e.ns})
	if err != nil || len(many) != 1 || many[0] != c.ID {
		t.Errorf("complete_many: %s, %v", show(many), err)
	}
	fail, err := gen.Fail(ctx, e.pool, gen.FailParams{TaskID: c.ID, LeaseNumber: c.LeaseNumber, Error: "x", Namespace: &e.ns})
	if err != nil || fail.Result != gen.WriteResultLeaseLost {
		t.Errorf("fail: %s, %v", show(fail), err)
	}
	snooze, err := gen.Snooze(ctx, e.pool, gen.SnoozeParams{TaskID: c.ID, LeaseNumber: c.LeaseNumber, Namespace: &e.ns})
	if err != nil || snooze != gen.WriteResultLeaseLost {
		t.Errorf("snooze: %s, %v", snooze, err)
	}
	progress, err := gen.SetProgress(ctx, e.pool, gen.SetProgressParams{TaskID: c.ID, LeaseNumber: c.LeaseNumber, Progress: []byte("1"), Namespace: &e.ns})
	if err != nil || progress != gen.WriteResultLeaseLost {
		t.Errorf("set_progress: %s, %v", progress, err)
	}
}

// expire ends a lease now.
func (e *env) expire(t testing.TB, lease uuid.UUID) {
	t.Helper()
	exec(t, e.pool, "update pgqueue.lease set renewed_at = 'epoch', expires_at = 'epoch' where namespace = $1::text and id = $2::uuid", e.ns, lease.String())
}

// L3: a renewal rewrites the lease's row and no task row, however many tasks run under it.
func TestRenewalRewritesNoTask(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "select pgqueue.enqueue('work', namespace => $1::text) from generate_series(1, 1000)", e.ns)
	lease := e.lease(t, time.Minute)
	if c := e.claimMany(t, e.pool, lease, 1000); len(c) != 1000 {
		t.Fatalf("claimed %d", len(c))
	}
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Both counters have what this session did before and has not reported yet.
	const updated = "select pg_stat_get_xact_tuples_updated($1::regclass)"
	leases, tasks := value[int64](t, tx, updated, "pgqueue.lease"), value[int64](t, tx, updated, "pgqueue.task")
	renewal, err := gen.RenewLease(t.Context(), tx, gen.RenewLeaseParams{LeaseID: lease, Namespace: &e.ns})
	if err != nil || !renewal.Renewed || len(renewal.Cancelled) != 0 {
		t.Fatalf("renewal %s, %v", show(renewal), err)
	}
	if n := value[int64](t, tx, updated, "pgqueue.lease") - leases; n != 1 {
		t.Errorf("%d lease rows updated, want 1", n)
	}
	if n := value[int64](t, tx, updated, "pgqueue.task") - tasks; n != 0 {
		t.Errorf("%d task rows updated, want none", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// L9: a paused queue gives nothing until it is resumed; what runs goes on.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lease := e.lease(t, time.Minute)
	running := e.add(t, gen.EnqueueParams{})
	task := e.claim(t, e.pool, lease, running)
	pause := func() error {
		return gen.PauseQueue(t.Context(), e.pool, gen.PauseQueueParams{Queue: "default", Namespace: &e.ns})
	}
	for range 2 {
		if err := pause(); err != nil {
			t.Fatal(err)
		}
	}
	waiting := e.add(t, gen.EnqueueParams{})
	if c := e.claimMany(t, e.pool, lease, 10); len(c) != 0 {
		t.Errorf("a paused queue gave %s", show(c))
	}
	e.complete(t, e.pool, task)
	if err := gen.ResumeQueue(t.Context(), e.pool, gen.ResumeQueueParams{Queue: "default", Namespace: &e.ns}); err != nil {
		t.Fatal(err)
	}
	e.claim(t, e.pool, lease, waiting)
}

// L9: progress and result are stored with the task.
func TestProgressAndResult(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.add(t, gen.EnqueueParams{Metadata: []byte(`{"who": "me"}`)})
	task := e.claim(t, e.pool, e.lease(t, time.Minute), id)
	written, err := gen.SetProgress(t.Context(), e.pool, gen.SetProgressParams{TaskID: id, LeaseNumber: task.LeaseNumber, Progress: []byte(`{"done": 0.50}`), Namespace: &e.ns})
	if err != nil || written != gen.WriteResultOK {
		t.Fatalf("set_progress: %s, %v", written, err)
	}
	done, err := gen.Complete(t.Context(), e.pool, gen.CompleteParams{TaskID: id, LeaseNumber: task.LeaseNumber, Result: []byte(`[1.0]`), Namespace: &e.ns})
	if err != nil || done != gen.WriteResultOK {
		t.Fatalf("complete: %s, %v", done, err)
	}
	if row := e.task(t, id); string(row.Progress) != `{"done": 0.50}` || string(row.Result) != `[1.0]` || string(row.Metadata) != `{"who": "me"}` {
		t.Errorf("task is %s", show(row))
	}
}
