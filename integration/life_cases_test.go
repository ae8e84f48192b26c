package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// case_C24: the reaper needs no task, key or leader of its own. One that is broken off in the middle leaves everything to the next.
func TestReaperIsNoTask(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dead := e.lease(t, time.Minute)
	ids := []uuid.UUID{e.create(t, e.active("a")), e.create(t, e.active("b"))}
	e.claimMany(t, e.pool, dead, 2)
	e.expire(t, dead)
	dying := e.session(t, readCommitted)
	exec(t, dying, "begin")
	if reaped := e.reap(t, dying); reaped.Requeued != 2 {
		t.Fatalf("reaped %s", show(reaped))
	}
	if reaped := e.reap(t, e.pool); reaped.Requeued != 0 {
		t.Errorf("a second reaper took %s from the first", show(reaped))
	}
	exec(t, e.pool, "select pg_terminate_backend($1::integer)", int(dying.PgConn().PID()))
	deadline := time.Now().Add(patience)
	for reaped := e.reap(t, e.pool); reaped.Requeued != 2; reaped = e.reap(t, e.pool) {
		if time.Now().After(deadline) {
			t.Fatal("the tasks are not reaped")
		}
	}
	for _, id := range ids {
		if task := e.task(t, id); task.Status != gen.TaskStatusReady {
			t.Errorf("task is %s", show(task))
		}
	}
	checkInvariants(t, e.pool)
}

// case_C25: no fixed time for all: tasks of a worker with a short lease are soon back, those of one with a long lease are left to it,
// and a task that asks for a longer lease than its worker's keeps it.
func TestLeaseLengths(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	short, long := e.lease(t, 30*time.Second), e.lease(t, 8*time.Hour)
	quick := e.add(t, gen.EnqueueParams{Queue: ptr("short")})
	patient := e.add(t, gen.EnqueueParams{Queue: ptr("short"), Lease: ptr(time.Hour)})
	slow := e.add(t, gen.EnqueueParams{Queue: ptr("long")})
	e.claimMany(t, e.pool, short, 2, "short")
	e.claimMany(t, e.pool, long, 1, "long")
	for _, step := range []struct {
		forward time.Duration
		ready   []uuid.UUID
	}{
		{30*time.Second - time.Microsecond, nil},
		{time.Microsecond, []uuid.UUID{quick}},
		{time.Hour - 31*time.Second, []uuid.UUID{quick}},
		{time.Second, []uuid.UUID{quick, patient}},
		{7*time.Hour - time.Second, []uuid.UUID{quick, patient}},
		{time.Second, []uuid.UUID{quick, patient, slow}},
	} {
		clock.forward(t, step.forward)
		e.reap(t, e.pool)
		var ready []uuid.UUID
		for _, id := range []uuid.UUID{quick, patient, slow} {
			if e.task(t, id).Status == gen.TaskStatusReady {
				ready = append(ready, id)
			}
		}
		if show(ready) != show(step.ready) {
			t.Errorf("after %s more, ready are %s, want %s", step.forward, show(ready), show(step.ready))
		}
	}
}

// case_C29: keys are hashed with 256 bits: a million different ones stay different, with their neighbours of another kind or type.
func TestKeysDoNotCollide(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	distinct := value[int](t, e.pool, `
		select count(distinct k) from generate_series(1, 1000000) i
		cross join lateral (values (pgqueue._lock_key('t' || i % 2, (i / 2)::text))) v (k)`)
	if distinct != 1_000_000 {
		t.Errorf("%d different keys of 1,000,000", distinct)
	}
	if same := value[bool](t, e.pool, "select pgqueue._lock_key('t', 'k') = pgqueue._window_key('t', 'k')"); same {
		t.Error("an active key and a window key share a hash")
	}
}

// case_C54: duplicates of a hot key leave no dead rows, and keys whose tasks are done leave the lock table by themselves.
func TestLockTableStaysSmall(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lease := e.lease(t, time.Minute)
	for round := range 3 {
		for i := range 50 {
			e.create(t, e.active(fmt.Sprintf("%d/%d", round, i)))
			e.enqueue(t, e.active(fmt.Sprintf("%d/%d", round, i)))
		}
		for _, task := range e.claimMany(t, e.pool, lease, 100) {
			e.complete(t, e.pool, task)
		}
	}
	if n := value[int](t, e.pool, "select count(*) from pgqueue.unique_lock where namespace = $1::text", e.ns); n != 0 {
		t.Errorf("%d keys of finished tasks are left", n)
	}
}

// case_C54: under a snapshot that another session holds, a claim does not walk over all that was claimed since; and what comes in
// before that place is found when the claim runs dry.
func TestClaimUnderOldSnapshot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const batch, batches = 100, 40
	exec(t, e.pool, "select pgqueue.enqueue('work', namespace => $1::text) from generate_series(1, $2::integer)", e.ns, batch*(batches+1))
	old := e.session(t, repeatableRead)
	exec(t, old, "begin")
	exec(t, old, "select count(*) from pgqueue.task")
	conn, lease := e.session(t, readCommitted), e.lease(t, time.Hour)
	cost := func() int64 {
		t.Helper()
		const walked = "select pg_stat_get_xact_tuples_returned('pgqueue.task_claim_idx'::regclass)"
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := value[int64](t, tx, walked)
		claimed := e.claimMany(t, tx, lease, batch)
		after := value[int64](t, tx, walked)
		for _, task := range claimed {
			e.complete(t, tx, task)
		}
		if err := tx.Commit(t.Context()); err != nil || len(claimed) != batch {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		return after - before
	}
	var total int64
	for range batches {
		total += cost()
	}
	// Walking over all that is gone would take batch * batches * batches / 2. A look from the beginning is due each second.
	if most := int64(batch * batches * batches / 6); total > most {
		t.Errorf("the claims walked over %d index entries, at most %d are expected", total, most)
	}
	early := e.add(t, gen.EnqueueParams{RunAfter: ptr(time.Unix(0, 0))})
	found := false
	for range 3 {
		for _, task := range e.claimMany(t, conn, lease, batch) {
			found = found || task.ID == early
		}
	}
	if !found {
		t.Error("a task that came in before the remembered place is not found")
	}
	exec(t, old, "commit")
	checkInvariants(t, e.pool)
}
