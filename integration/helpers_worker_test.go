package integration_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// lease opens a worker session.
func (e *env) lease(t testing.TB, length time.Duration) uuid.UUID {
	t.Helper()
	id, err := gen.OpenLease(t.Context(), e.pool, gen.OpenLeaseParams{Worker: "w", Length: &length, Namespace: &e.ns})
	if err != nil {
		t.Fatalf("open_lease: %v", err)
	}
	return id
}

// claim takes the one due task of a queue, which must be this one.
func (e *env) claim(t testing.TB, db gen.DB, lease, want uuid.UUID, queues ...string) gen.ClaimedTask {
	t.Helper()
	claimed, err := gen.Claim(t.Context(), db, gen.ClaimParams{LeaseID: lease, Queues: queues, MaxTasks: ptr(10), Namespace: &e.ns})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if len(claimed) != 1 || claimed[0].ID != want {
		t.Fatalf("claimed %s, want only %s", show(claimed), want)
	}
	return claimed[0]
}

func (e *env) complete(t testing.TB, db gen.DB, task gen.ClaimedTask) {
	t.Helper()
	result, err := gen.Complete(t.Context(), db, gen.CompleteParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Namespace: &e.ns})
	if err != nil || result != gen.WriteResultOK {
		t.Fatalf("complete: %s, %v", result, err)
	}
}

// fail ends an attempt; want is the status after it.
func (e *env) fail(t testing.TB, db gen.DB, task gen.ClaimedTask, want gen.TaskStatus) {
	t.Helper()
	failure, err := gen.Fail(t.Context(), db, gen.FailParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Error: "boom", Namespace: &e.ns})
	if err != nil || failure.Result != gen.WriteResultOK || failure.Status != want {
		t.Fatalf("fail: %s, %v; want status %s", show(failure), err, want)
	}
}

func (e *env) discard(t testing.TB, db gen.DB, id uuid.UUID) {
	t.Helper()
	if err := gen.Discard(t.Context(), db, gen.DiscardParams{TaskID: id, Namespace: &e.ns}); err != nil {
		t.Fatalf("discard: %v", err)
	}
}

func (e *env) retry(t testing.TB, db gen.DB, id uuid.UUID) gen.Retried {
	t.Helper()
	retried, err := gen.Retry(t.Context(), db, gen.RetryParams{TaskID: id, Namespace: &e.ns})
	if err != nil {
		t.Fatalf("retry: %v", err)
	}
	return retried
}

func (e *env) reap(t testing.TB, db gen.DB) gen.Reaped {
	t.Helper()
	reaped, err := gen.ReapLost(t.Context(), db, gen.ReapLostParams{Namespace: &e.ns})
	if err != nil {
		t.Fatalf("reap_lost: %v", err)
	}
	return reaped
}

// prune removes everything that is settled, at once.
func (e *env) prune(t testing.TB, db gen.DB) gen.Pruned {
	t.Helper()
	none := time.Duration(0)
	pruned, err := gen.Prune(t.Context(), db, gen.PruneParams{
		Retention: &none, DiscardedRetention: &none, FailedRetention: &none, LostRetention: &none, Namespace: &e.ns})
	if err != nil {
		t.Fatalf("prune: %v", err)
	}
	return pruned
}

// settle brings a READY task, the only due one, to a settled status by the ways of workers and operators.
func (e *env) settle(t testing.TB, id uuid.UUID, status gen.TaskStatus) {
	t.Helper()
	switch status {
	case gen.TaskStatusDiscarded:
		e.discard(t, e.pool, id)
	case gen.TaskStatusSuccessful:
		e.complete(t, e.pool, e.claim(t, e.pool, e.lease(t, time.Minute), id))
	case gen.TaskStatusFailed:
		e.lastAttempt(t, id)
		e.fail(t, e.pool, e.claim(t, e.pool, e.lease(t, time.Minute), id), status)
	case gen.TaskStatusLost:
		e.lastAttempt(t, id)
		e.claim(t, e.pool, e.lease(t, time.Minute), id)
		e.expireLeases(t)
		if reaped := e.reap(t, e.pool); reaped.Lost != 1 {
			t.Fatalf("reaped %s, want one LOST", show(reaped))
		}
	default:
		t.Fatalf("%s is not settled", status)
	}
	if got := e.task(t, id).Status; got != status {
		t.Fatalf("task %s is %s, want %s", id, got, status)
	}
}

// lastAttempt leaves a task one attempt.
func (e *env) lastAttempt(t testing.TB, id uuid.UUID) {
	t.Helper()
	exec(t, e.pool, "update pgqueue.task set max_attempts = attempt + 1 where namespace = $1::text and id = $2::uuid", e.ns, id.String())
}

// expireLeases is what time does to workers that have fallen silent.
func (e *env) expireLeases(t testing.TB) {
	t.Helper()
	exec(t, e.pool, `update pgqueue.lease set renewed_at = renewed_at - interval '1 day', expires_at = expires_at - interval '1 day'
		where namespace = $1::text`, e.ns)
}
