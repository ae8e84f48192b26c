package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/pgqueue/pgqueue/gen"
)

const (
	modelLeaseLength = time.Minute
	modelWindow1     = 2 * time.Minute
)

// life is one sequence: the queue and the model side by side.
type life struct {
	model

	e   *env
	ctx context.Context
	ids []uuid.UUID // of all tasks that there ever were
}

func (l *life) forward(rt *rapid.T, by time.Duration) {
	l.now = l.now.Add(by)
	l.must(rt)(l.e.pool.Exec(l.ctx, "select setval('pgqueue_test.stopped_at', $1::bigint)", l.now.UnixMicro()))
}

func (l *life) must(rt *rapid.T) func(_ any, err error) {
	return func(_ any, err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
}

// codeOf is the SQLSTATE of an error.
func codeOf(err error) string {
	var server *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &server):
		return server.Code
	}
	return err.Error()
}

func (l *life) anyTask(rt *rapid.T) uuid.UUID {
	if len(l.ids) == 0 {
		rt.Skip("no task")
	}
	return rapid.SampledFrom(l.ids).Draw(rt, "task")
}

func (l *life) anyLease(rt *rapid.T) *modelLease {
	if len(l.leases) == 0 {
		rt.Skip("no lease")
	}
	return rapid.SampledFrom(l.leases).Draw(rt, "lease")
}

// execution is a task with the lease number of its last execution, or of an earlier one; mostly a task whose outcome is not known.
func (l *life) execution(rt *rapid.T) (id uuid.UUID, number int) {
	var under []uuid.UUID
	for _, t := range l.tasks {
		if t.status == gen.TaskStatusRunning || t.status == gen.TaskStatusLost {
			under = append(under, t.id)
		}
	}
	if len(under) > 0 && rapid.IntRange(0, 9).Draw(rt, "other") > 0 {
		id = rapid.SampledFrom(under).Draw(rt, "execution")
	} else {
		id = l.anyTask(rt)
	}
	if t := l.task(id); t != nil {
		number = t.leaseNumber
	}
	if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
		number--
	}
	return id, number
}

func (l *life) enqueue(rt *rapid.T) {
	l.forward(rt, time.Second) // so that ids sort like the model's tasks
	r := modelRequest{
		active:  rapid.SampledFrom([]string{"", "a", "a", "b"}).Draw(rt, "active"),
		window:  rapid.SampledFrom([]string{"", "", "v", "w"}).Draw(rt, "window"),
		payload: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "payload"),
		max:     rapid.SampledFrom([]int{1, 1, 2}).Draw(rt, "max attempts"),
	}
	unique := rapid.Bool().Draw(rt, "unique")
	p := request{TaskName: "send", Payload: json.RawMessage(r.payload), MaxAttempts: &r.max, Namespace: &l.e.ns}
	if r.active != "" {
		p.ActiveKey = &r.active
	}
	if r.window != "" {
		p.WindowKey, p.WindowLength = &r.window, ptr(modelWindow1)
	}
	if unique && r.active == "" && r.window == "" {
		r.derived = "derived from " + r.payload
	}
	var got gen.Receipt
	var err error
	switch rapid.IntRange(0, 2).Draw(rt, "way") {
	case 0: // alone
		got, err = (&twin{env: l.e}).single(l.ctx, l.e.pool, batchItem{p, unique})
	default: // in a batch, with a window beside it or not: both of its paths
		all := []batchItem{{p, unique}}
		var receipts []gen.Receipt
		if receipts, err = gen.EnqueueMany(l.ctx, l.e.pool, l.e.batch(all, continueOnConflict)); err == nil {
			got = receipts[0]
		}
	}
	if err != nil {
		rt.Fatal(err)
	}
	want := l.model.enqueue(r, modelWindow1)
	switch {
	case want.code != "":
		if got.ErrorCode == nil || *got.ErrorCode != want.code || *got.ConflictingTaskID != want.conflict ||
			want.code == "PQ002" && *got.ConflictingHolderID != want.holder {
			rt.Fatalf("%+v: %s, want %+v", r, show(got), want)
		}
		return
	case want.created:
		if got.Disposition != gen.DispositionCreated || got.Status != gen.TaskStatusReady || !got.RunAfter.Equal(l.now) {
			rt.Fatalf("%+v: %s, want a new task", r, show(got))
		}
		l.created(r, *got.TaskID, *got.RunAfter)
		l.ids = append(l.ids, *got.TaskID)
		return
	}
	if got.Disposition != gen.DispositionReused || got.DuplicateMatch != want.match || *got.TaskID != want.task || *got.PolicyDrift != want.drift {
		rt.Fatalf("%+v: %s, want %+v", r, show(got), want)
	}
	if t := l.task(want.task); t == nil && got.Status != "" ||
		t != nil && (got.Status != t.status || *got.Attempt != t.attempt || !got.RunAfter.Equal(t.runAfter)) {
		rt.Fatalf("%+v: %s, the task is %+v", r, show(got), t)
	}
}

func (l *life) openLease(rt *rapid.T) {
	id, err := gen.OpenLease(l.ctx, l.e.pool, gen.OpenLeaseParams{Worker: "w", Length: ptr(modelLeaseLength), Namespace: &l.e.ns})
	l.must(rt)(id, err)
	l.leases = append(l.leases, &modelLease{id, l.now.Add(modelLeaseLength)})
}

func (l *life) renewLease(rt *rapid.T) {
	lease := l.anyLease(rt)
	renewal, err := gen.RenewLease(l.ctx, l.e.pool, gen.RenewLeaseParams{LeaseID: lease.id, Namespace: &l.e.ns})
	lease.expires = l.now.Add(modelLeaseLength)
	if err != nil || !renewal.Renewed || !renewal.ExpiresAt.Equal(lease.expires) {
		rt.Fatalf("renew_lease: %s, %v", show(renewal), err)
	}
	cancelled := 0
	for _, t := range l.tasks {
		if t.status == gen.TaskStatusRunning && t.lease == lease && t.cancelled {
			cancelled++
		}
	}
	if len(renewal.Cancelled) != cancelled {
		rt.Fatalf("renew_lease: %s, want %d to stop", show(renewal), cancelled)
	}
}

func (l *life) closeOne(rt *rapid.T) {
	lease := l.anyLease(rt)
	got, err := gen.CloseLease(l.ctx, l.e.pool, gen.CloseLeaseParams{LeaseID: lease.id, Namespace: &l.e.ns})
	if want := l.closeLease(lease); err != nil || got != want {
		rt.Fatalf("close_lease: %d, %v, want %d", got, err, want)
	}
}

func (l *life) claimOne(rt *rapid.T) {
	if len(l.leases) == 0 || len(l.leases) == 1 && rapid.Bool().Draw(rt, "another lease") {
		l.openLease(rt)
	}
	lease := l.anyLease(rt)
	// A session may begin where its last claim ended, for a second: then the task is any that is due.
	anyDue := rapid.Bool().Draw(rt, "at once")
	if !anyDue {
		l.forward(rt, time.Second+time.Microsecond)
	}
	got, err := gen.Claim(l.ctx, l.e.pool, gen.ClaimParams{LeaseID: lease.id, Namespace: &l.e.ns})
	if !l.now.Before(lease.expires) {
		if codeOf(err) != "PQ009" {
			rt.Fatalf("claim under an expired lease: %s, %v", show(got), err)
		}
		return
	}
	want := l.due()
	if anyDue && len(got) == 1 && want != nil {
		want = l.task(got[0].ID)
		if want == nil || want.status != gen.TaskStatusReady || want.runAfter.After(l.now) {
			rt.Fatalf("claim: %s, which is %+v", show(got), want)
		}
	}
	if want != nil {
		want.claim(lease)
	}
	if err != nil || (want == nil) != (len(got) == 0) {
		rt.Fatalf("claim: %s, %v, want %+v", show(got), err, want)
	}
	if want != nil && (got[0].ID != want.id || got[0].Attempt != want.attempt || got[0].MaxAttempts != want.max || got[0].LeaseNumber != want.leaseNumber) {
		rt.Fatalf("claim: %s, want %+v", show(got), want)
	}
}

func (l *life) completeOne(rt *rapid.T) {
	id, number := l.execution(rt)
	got, err := gen.Complete(l.ctx, l.e.pool, gen.CompleteParams{TaskID: id, LeaseNumber: number, Namespace: &l.e.ns})
	want := gen.WriteResultLeaseLost
	if t := l.task(id); t.mayWrite(number, true) {
		want, t.status = gen.WriteResultOK, gen.TaskStatusSuccessful
	}
	if err != nil || got != want {
		rt.Fatalf("complete: %s, %v, want %s", got, err, want)
	}
}

func (l *life) failOne(rt *rapid.T) {
	id, number := l.execution(rt)
	discard := rapid.IntRange(0, 3).Draw(rt, "discard") == 0
	p := gen.FailParams{TaskID: id, LeaseNumber: number, Error: "boom", Discard: &discard, Namespace: &l.e.ns}
	least, most := 4500*time.Millisecond, 11*time.Second // 5 s or 10 s, 10 % more or less
	if rapid.Bool().Draw(rt, "retry after") {
		least, most = 10*time.Second, 10*time.Second
		p.RetryAfter = &least
	}
	got, err := gen.Fail(l.ctx, l.e.pool, p)
	t := l.task(id)
	if !t.mayWrite(number, true) {
		if err != nil || got.Result != gen.WriteResultLeaseLost || got.Status != "" {
			rt.Fatalf("fail: %s, %v, want LEASE_LOST", show(got), err)
		}
		return
	}
	if want := t.fail(discard); err != nil || got.Result != gen.WriteResultOK || got.Status != want {
		rt.Fatalf("fail: %s, %v, want %s", show(got), err, want)
	}
	if t.status == gen.TaskStatusReady {
		if wait := got.RunAfter.Sub(l.now); wait < least || wait > most {
			rt.Fatalf("fail: due after %s", wait)
		}
		t.runAfter = *got.RunAfter
	}
}

func (l *life) snoozeOne(rt *rapid.T) {
	id, number := l.execution(rt)
	delay := rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(rt, "delay")
	got, err := gen.Snooze(l.ctx, l.e.pool, gen.SnoozeParams{TaskID: id, LeaseNumber: number, Delay: delay, Namespace: &l.e.ns})
	want := gen.WriteResultLeaseLost
	if t := l.task(id); t.mayWrite(number, false) {
		want, t.runAfter = gen.WriteResultOK, l.now.Add(delay)
		t.giveBack()
	}
	if err != nil || got != want {
		rt.Fatalf("snooze: %s, %v, want %s", got, err, want)
	}
}

func (l *life) retryOne(rt *rapid.T) {
	id := l.anyTask(rt)
	got, err := gen.Retry(l.ctx, l.e.pool, gen.RetryParams{TaskID: id, Namespace: &l.e.ns})
	code, holds, holder := l.retry(l.task(id))
	if codeOf(err) != code || code == "" && show(got) != show(gen.Retried{TaskID: id, HoldsKey: holds, KeyHolderID: holder}) {
		rt.Fatalf("retry: %s, %v, want %q, %s, %s", show(got), err, code, show(holds), show(holder))
	}
}

func (l *life) discardOne(rt *rapid.T) {
	id := l.anyTask(rt)
	err := gen.Discard(l.ctx, l.e.pool, gen.DiscardParams{TaskID: id, Namespace: &l.e.ns})
	if want := l.discard(l.task(id)); codeOf(err) != want {
		rt.Fatalf("discard: %v, want %q", err, want)
	}
}

func (l *life) cancelOne(rt *rapid.T) {
	id := l.anyTask(rt)
	got, err := gen.Cancel(l.ctx, l.e.pool, gen.CancelParams{TaskID: id, Namespace: &l.e.ns})
	if code, status := l.cancel(l.task(id)); codeOf(err) != code || code == "" && got != status {
		rt.Fatalf("cancel: %s, %v, want %s, %q", got, err, status, code)
	}
}

func (l *life) reapAll(rt *rapid.T) {
	got, err := gen.ReapLost(l.ctx, l.e.pool, gen.ReapLostParams{Namespace: &l.e.ns})
	if want := l.reap(); err != nil || got != want {
		rt.Fatalf("reap_lost: %s, %v, want %s", show(got), err, show(want))
	}
}

func (l *life) pruneAll(rt *rapid.T) {
	none := time.Duration(0)
	got, err := gen.Prune(l.ctx, l.e.pool, gen.PruneParams{
		Retention: &none, DiscardedRetention: &none, FailedRetention: &none, LostRetention: &none, Namespace: &l.e.ns})
	if want := l.prune(); err != nil || got.Tasks != want.Tasks || got.Windows != want.Windows {
		rt.Fatalf("prune: %s, %v, want %s", show(got), err, show(want))
	}
}

func (l *life) forget(rt *rapid.T) {
	key := rapid.SampledFrom([]string{"v", "w"}).Draw(rt, "window")
	got, err := gen.ForgetWindow(l.ctx, l.e.pool, gen.ForgetWindowParams{TaskName: "send", WindowKey: key, Namespace: &l.e.ns})
	_, want := l.windows[key]
	delete(l.windows, key)
	if err != nil || got != want {
		rt.Fatalf("forget_window: %v, %v, want %v", got, err, want)
	}
}

func (l *life) release(rt *rapid.T) {
	l.must(rt)(gen.ReleaseStale(l.ctx, l.e.pool, gen.ReleaseStaleParams{Namespace: &l.e.ns}))
}

// agree compares what is stored with the model.
func (l *life) agree(rt *rapid.T) {
	violations, err := gen.CheckInvariants(l.ctx, l.e.pool, gen.CheckInvariantsParams{Namespace: &l.e.ns})
	if err != nil || len(violations) > 0 {
		rt.Fatalf("invariants: %s, %v", show(violations), err)
	}
	for _, id := range l.ids {
		found, err := gen.GetTask(l.ctx, l.e.pool, gen.GetTaskParams{TaskID: id, Namespace: &l.e.ns})
		t := l.task(id)
		if err != nil || (t == nil) != (len(found) == 0) {
			rt.Fatalf("task %s: %s, %v, want %+v", id, show(found), err, t)
		}
		if t != nil && (found[0].Status != t.status || found[0].Attempt != t.attempt || found[0].MaxAttempts != t.max || !found[0].RunAfter.Equal(t.runAfter)) {
			rt.Fatalf("task %s: %s, want %+v", id, show(found), t)
		}
	}
	for _, key := range []string{"a", "b"} {
		got, err := gen.ExplainKey(l.ctx, l.e.pool, gen.ExplainKeyParams{TaskName: "send", ActiveKey: &key, Namespace: &l.e.ns})
		holder := l.holder(key)
		if err != nil || len(got) != 1 || got[0].Held != (holder != nil) || holder != nil && *got[0].TaskID != holder.id {
			rt.Fatalf("key %s: %s, %v, want %+v", key, show(got), err, holder)
		}
	}
}

// A1-A4, A11, A19, A20, W1-W6, W8, C1-C4, B3, L2, L4-L8: random lives of tasks of few keys. Every call must answer what the model says. A
// sequence that fails is shrunk. More of them: -rapid.checks=2000 -rapid.steps=60.
func TestA1_W1_C1_RandomLives(t *testing.T) {
	t.Parallel()
	first, clock := newClockEnv(t)
	clock.stop(t, noon)
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{e: first.scope(), ctx: t.Context(), model: model{now: noon, windows: map[string]*modelWindow{}}}
		l.forward(rt, 0)
		rt.Repeat(map[string]func(*rapid.T){
			// What is here more than once happens more often.
			"enqueue 1": l.enqueue, "enqueue 2": l.enqueue, "enqueue 3": l.enqueue, "enqueue 4": l.enqueue, "enqueue 5": l.enqueue,
			"claim 1": l.claimOne, "claim 2": l.claimOne, "claim 3": l.claimOne,
			"complete 1": l.completeOne, "complete 2": l.completeOne, "fail 1": l.failOne, "fail 2": l.failOne, "snooze": l.snoozeOne,
			"renew lease": l.renewLease, "close lease": l.closeOne,
			"lose": func(rt *rapid.T) {
				l.claimOne(rt)
				l.forward(rt, modelLeaseLength)
				l.reapAll(rt)
			},
			"retry": l.retryOne, "discard": l.discardOne, "cancel": l.cancelOne,
			"reap": l.reapAll, "prune": l.pruneAll, "forget": l.forget, "release": l.release,
			"wait": func(rt *rapid.T) {
				l.forward(rt, rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, time.Minute, 2 * time.Minute}).Draw(rt, "time"))
			},
		})
		l.agree(rt)
	})
}

func (t modelTask) String() string { return fmt.Sprintf("%s %s %q", t.id, t.status, t.key) }
