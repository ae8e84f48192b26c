package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// L4: the delay doubles with each attempt up to its maximum, give or take a tenth.
func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.stop(t, now)
	id := e.add(t, gen.EnqueueParams{Backoff: ptr(10 * time.Second), MaxBackoff: ptr(60 * time.Second), MaxAttempts: ptr(6)})
	lease := e.lease(t, 30*24*time.Hour)
	for attempt, want := range []time.Duration{10, 20, 40, 60, 60} {
		task := e.claim(t, e.pool, lease, id)
		failure, err := gen.Fail(t.Context(), e.pool, gen.FailParams{TaskID: id, LeaseNumber: task.LeaseNumber, Error: "no", Namespace: &e.ns})
		if err != nil || failure.Status != gen.TaskStatusReady {
			t.Fatalf("failure %s, %v", show(failure), err)
		}
		delay, want := failure.RunAfter.Sub(now), want*time.Second
		if delay < want*9/10 || delay > want*11/10 {
			t.Errorf("delay after attempt %d is %s, want %s give or take a tenth", attempt+1, delay, want)
		}
		if c := e.claimMany(t, e.pool, lease, 1); len(c) != 0 {
			t.Fatalf("claimed in its backoff: %s", show(c))
		}
		clock.forward(t, delay)
		now = now.Add(delay)
	}
	e.fail(t, e.pool, e.claim(t, e.pool, lease, id), gen.TaskStatusFailed)
	attempts, err := gen.ListAttempts(t.Context(), e.pool, gen.ListAttemptsParams{TaskID: id, Namespace: &e.ns})
	if err != nil || len(attempts) != 6 || attempts[5].Attempt != 6 || *attempts[0].Error != "no" || *attempts[0].Worker != "w" {
		t.Errorf("attempts %s, %v", show(attempts), err)
	}
}

// L4: an error text of any length is stored, cut.
func TestLongErrorIsCut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.add(t, gen.EnqueueParams{})
	task := e.claim(t, e.pool, e.lease(t, time.Minute), id)
	long := strings.Repeat("é", 100_000)
	if _, err := gen.Fail(t.Context(), e.pool, gen.FailParams{TaskID: id, LeaseNumber: task.LeaseNumber, Error: long, Namespace: &e.ns}); err != nil {
		t.Fatal(err)
	}
	attempts, err := gen.ListAttempts(t.Context(), e.pool, gen.ListAttemptsParams{TaskID: id, Namespace: &e.ns})
	if err != nil || *attempts[0].Error != long[:2*65536] {
		t.Errorf("%d bytes stored, %v", len(*attempts[0].Error), err)
	}
}

// L5: 500 tasks that run under a live lease do not stand before the one of a dead worker.
func TestReapFindsTheDead(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "select pgqueue.enqueue('work', namespace => $1::text) from generate_series(1, 500)", e.ns)
	live := e.lease(t, time.Hour)
	if c := e.claimMany(t, e.pool, live, 500); len(c) != 500 {
		t.Fatalf("claimed %d", len(c))
	}
	id, dead := e.add(t, gen.EnqueueParams{}), e.lease(t, time.Minute)
	e.claim(t, e.pool, dead, id)
	e.expire(t, dead)
	reaped, err := gen.ReapLost(t.Context(), e.pool, gen.ReapLostParams{MaxTasks: ptr(100), Namespace: &e.ns})
	if err != nil || reaped.Requeued != 1 || reaped.Lost != 0 {
		t.Errorf("reaped %s, %v", show(reaped), err)
	}
	if task := e.task(t, id); task.Status != gen.TaskStatusReady {
		t.Errorf("task is %s", show(task))
	}
}

// L5: a batch is bounded, rows and leases that others hold are passed over, and the rest is found by the next call.
func TestReapIsBoundedAndPassesOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dead := e.lease(t, time.Minute)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, e.add(t, gen.EnqueueParams{}))
	}
	e.claimMany(t, e.pool, dead, 5)
	e.expire(t, dead)
	holder := e.session(t, readCommitted)
	exec(t, holder, "begin")
	exec(t, holder, "select from pgqueue.task where namespace = $1::text and id = $2::uuid for update", e.ns, ids[0].String())
	reap := func(most int) int64 {
		t.Helper()
		reaped, err := gen.ReapLost(t.Context(), e.pool, gen.ReapLostParams{MaxTasks: &most, Namespace: &e.ns})
		if err != nil {
			t.Fatal(err)
		}
		return reaped.Requeued
	}
	for _, want := range []int64{2, 2, 0} {
		if got := reap(2); got != want {
			t.Errorf("reaped %d, want %d", got, want)
		}
	}
	exec(t, holder, "rollback")
	if got := reap(2); got != 1 {
		t.Errorf("reaped %d, want the last", got)
	}
	if n := value[int](t, e.pool, "select count(*) from pgqueue.lease where namespace = $1::text", e.ns); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	checkInvariants(t, e.pool)
}

// L5: one row that cannot be written does not stop the sweep.
func TestReapSurvivesBadRow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dead, other := e.lease(t, time.Minute), e.lease(t, time.Minute)
	ids := []uuid.UUID{e.add(t, gen.EnqueueParams{}), e.add(t, gen.EnqueueParams{}), e.add(t, gen.EnqueueParams{})}
	e.claimMany(t, e.pool, dead, 2)
	e.claimMany(t, e.pool, other, 1)
	exec(t, e.pool, "alter table pgqueue.task add constraint bad check (id <> '"+ids[0].String()+"' or status <> 'READY') not valid")
	e.expire(t, dead)
	e.expire(t, other)
	if reaped := e.reap(t, e.pool); reaped.Requeued != 2 {
		t.Errorf("reaped %s, want 2", show(reaped))
	}
	exec(t, e.pool, "alter table pgqueue.task drop constraint bad")
	if reaped := e.reap(t, e.pool); reaped.Requeued != 1 {
		t.Errorf("reaped %s, want the bad row", show(reaped))
	}
}

// L6: the execution behind a LOST row may still write its outcome, and only that one; a key that moved on stays. case_C20.
func TestLostExecutionReportsLate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, report := range map[string]func(c gen.ClaimedTask) gen.TaskStatus{
		"success": func(c gen.ClaimedTask) gen.TaskStatus {
			e.complete(t, e.pool, c)
			return gen.TaskStatusSuccessful
		},
		"failure": func(c gen.ClaimedTask) gen.TaskStatus {
			// Not READY, although it was not its last word: a LOST task is not tried again by itself.
			e.fail(t, e.pool, c, gen.TaskStatusFailed)
			return gen.TaskStatusFailed
		},
	} {
		r := e.active(name)
		r.MaxAttempts = ptr(1)
		id := e.create(t, r)
		dead := e.lease(t, time.Minute)
		late := e.claim(t, e.pool, dead, id)
		e.expire(t, dead)
		if reaped := e.reap(t, e.pool); reaped.Lost != 1 {
			t.Fatalf("reaped %s", show(reaped))
		}
		newer := e.create(t, e.active(name))
		stranger := late
		stranger.LeaseNumber++
		e.wantFenced(t, stranger)
		if status := report(late); e.task(t, id).Status != status {
			t.Errorf("%s: task is %s", name, show(e.task(t, id)))
		}
		wantReused(t, e.enqueue(t, e.active(name)), newer, gen.DuplicateMatchActive)
		e.wantFenced(t, late)
		e.discard(t, e.pool, newer)
		checkInvariants(t, e.pool)
	}
}

// L7: an operator's retry of an old holder runs it beside the newer one, and says who holds the key. case_C19.
func TestRetryBesideNewerHolder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	old := e.create(t, e.active("k"))
	e.discard(t, e.pool, old)
	if r := e.retry(t, e.pool, old); r.HoldsKey == nil || !*r.HoldsKey || r.KeyHolderID != nil {
		t.Errorf("the key was free: %s", show(r))
	}
	wantReused(t, e.enqueue(t, e.active("k")), old, gen.DuplicateMatchActive)
	e.discard(t, e.pool, old)
	newer := e.create(t, e.active("k"))
	r := e.retry(t, e.pool, old)
	if r.HoldsKey == nil || *r.HoldsKey || r.KeyHolderID == nil || *r.KeyHolderID != newer {
		t.Errorf("the key is the newer one's: %s", show(r))
	}
	if c := e.claimMany(t, e.pool, e.lease(t, time.Minute), 10); len(c) != 2 {
		t.Errorf("claimed %s, want both", show(c))
	}
	wantReused(t, e.enqueue(t, e.active("k")), newer, gen.DuplicateMatchActive)
	checkInvariants(t, e.pool)

	spent := e.add(t, gen.EnqueueParams{Queue: ptr("q"), MaxAttempts: ptr(1)})
	e.fail(t, e.pool, e.claim(t, e.pool, e.lease(t, time.Minute), spent, "q"), gen.TaskStatusFailed)
	e.retry(t, e.pool, spent)
	if again := e.claim(t, e.pool, e.lease(t, time.Minute), spent, "q"); again.Attempt != 2 || again.MaxAttempts != 2 {
		t.Errorf("one more attempt is %s", show(again))
	}
	_, err := gen.Retry(t.Context(), e.pool, gen.RetryParams{TaskID: spent, Namespace: &e.ns})
	wantError(t, err, "PQ009")
}

// L8: which states can be discarded and cancelled.
func TestDiscardAndCancelStates(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lease := e.lease(t, time.Minute)
	discard := func(id uuid.UUID) error {
		return gen.Discard(t.Context(), e.pool, gen.DiscardParams{TaskID: id, Namespace: &e.ns})
	}
	cancel := func(id uuid.UUID) (gen.TaskStatus, error) {
		return gen.Cancel(t.Context(), e.pool, gen.CancelParams{TaskID: id, Namespace: &e.ns})
	}
	running := e.add(t, gen.EnqueueParams{})
	task := e.claim(t, e.pool, lease, running)
	wantError(t, discard(running), "PQ009")
	if status, err := cancel(running); err != nil || status != gen.TaskStatusRunning {
		t.Errorf("cancel: %s, %v", status, err)
	}
	renewal, err := gen.RenewLease(t.Context(), e.pool, gen.RenewLeaseParams{LeaseID: lease, Namespace: &e.ns})
	if err != nil || len(renewal.Cancelled) != 1 || renewal.Cancelled[0] != running {
		t.Errorf("renewal %s, %v", show(renewal), err)
	}
	e.fail(t, e.pool, task, gen.TaskStatusDiscarded)
	_, err = cancel(running)
	wantError(t, err, "PQ009")
	wantError(t, discard(running), "PQ009")

	ready := e.add(t, gen.EnqueueParams{})
	if status, err := cancel(ready); err != nil || status != gen.TaskStatusDiscarded {
		t.Errorf("cancel of a READY task: %s, %v", status, err)
	}
	if c := e.claimMany(t, e.pool, lease, 1); len(c) != 0 {
		t.Errorf("claimed a cancelled task: %s", show(c))
	}
	_, err = cancel(uuid.New())
	wantError(t, err, "PQ008")
	wantError(t, discard(uuid.New()), "PQ008")
	checkInvariants(t, e.pool)
}
