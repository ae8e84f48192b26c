package integration_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/interleave"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// A13, case_C10: a duplicate in a long transaction holds off nothing that happens to the holder, at no level. The sessions beside
// it take a lock at once or fail.
func TestA13_DuplicateHoldsOffNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			e := e.scope()
			worker := e.session(t, readCommitted, pgtest.RuntimeParam("lock_timeout", "1ms"))
			producer := e.session(t, level)
			// Each round the long transaction begins with the duplicate, then the world moves on beside it.
			round := func(name string, happen func(id uuid.UUID, lease uuid.UUID)) {
				t.Helper()
				key := e.active(name)
				id := e.create(t, key)
				exec(t, producer, "begin")
				wantReused(t, enqueue(t, producer, key), id, gen.DuplicateMatchActive)
				happen(id, e.lease(t, time.Minute))
				exec(t, producer, "commit")
				exec(t, e.pool, "delete from pgqueue.task where namespace = $1::text", e.ns)
			}
			round("claim, renew, complete, prune", func(id, lease uuid.UUID) {
				task := e.claim(t, worker, lease, id)
				if _, err := gen.RenewLease(t.Context(), worker, gen.RenewLeaseParams{LeaseID: lease, Namespace: &e.ns}); err != nil {
					t.Fatal(err)
				}
				e.complete(t, worker, task)
				if pruned := e.prune(t, worker); pruned.Tasks != 1 {
					t.Errorf("pruned %s", show(pruned))
				}
			})
			round("fail", func(id, lease uuid.UUID) {
				e.fail(t, worker, e.claim(t, worker, lease, id), gen.TaskStatusReady)
			})
			round("reap", func(id, lease uuid.UUID) {
				e.claim(t, worker, lease, id)
				e.expireLeases(t)
				if reaped := e.reap(t, worker); reaped.Requeued != 1 {
					t.Errorf("reaped %s", show(reaped))
				}
			})
			round("discard, release", func(id, _ uuid.UUID) {
				e.discard(t, worker, id)
				released, err := gen.ReleaseStale(t.Context(), worker, gen.ReleaseStaleParams{Namespace: &e.ns})
				if err != nil || released == 0 {
					t.Errorf("released %d, %v", released, err)
				}
			})
			round("discard, take over", func(id, _ uuid.UUID) {
				e.discard(t, worker, id)
				wantCreated(t, enqueue(t, worker, e.active("discard, take over")))
			})
		})
	}
}

// A13 from the other side: whoever writes the holder without settling it yet does not hold off a duplicate.
func TestA13_WriterOfTheHolderDoesNotHoldOffDuplicates(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.create(t, e.active("k"))
	task := e.claim(t, e.pool, e.lease(t, time.Minute), id)
	worker := e.session(t, readCommitted)
	exec(t, worker, "begin")
	e.complete(t, worker, task)
	for _, level := range levels {
		producer := e.session(t, level, pgtest.RuntimeParam("lock_timeout", "1ms"))
		got := enqueue(t, producer, e.active("k"))
		wantReused(t, got, id, gen.DuplicateMatchActive)
		if got.Status != gen.TaskStatusRunning {
			t.Errorf("the status is %s", got.Status)
		}
	}
	exec(t, worker, "commit")
	e.create(t, e.active("k"))
}

const (
	oldHolder   = "00000000-0000-7000-8000-000000000001"
	retryByHand = "update pgqueue.task set status = 'READY', claimable = true, finished_at = null where id = '" + oldHolder + "'"
)

// settledHolder makes key k point to a FAILED task with a known id.
var settledHolder = []string{
	`select pgqueue.enqueue_unique('send', active_key => 'k')`,
	`update pgqueue.task set id = '` + oldHolder + `', status = 'FAILED', claimable = false, finished_at = now(), attempt = max_attempts`,
	`update pgqueue.unique_lock set task_id = '` + oldHolder + `'`,
}

const askK = "select (r).disposition, (r).task_id = '" + oldHolder + "' from (select pgqueue.enqueue_unique('send', active_key => 'k') as r) x"

// race40001 is what the stricter levels answer where READ COMMITTED looks again.
var race40001 = map[interleave.Isolation]string{interleave.RepeatableRead: "40001", interleave.Serializable: "40001"}

// A14, A18: an operator puts a settled holder back to READY while an enqueue takes the key over, in both orders of commit, by
// pgqueue.retry and by hand. Whoever is second acts on what the first committed.
func TestA14_RetryRacesTakeover(t *testing.T) {
	t.Parallel()
	for name, retry := range map[string]string{
		"retry":   "select (pgqueue.retry('" + oldHolder + "')).holds_key",
		"by hand": retryByHand + " returning true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keeps := func(want bool) func(testing.TB, *interleave.State) {
				return func(t testing.TB, s *interleave.State) {
					t.Helper()
					kept := value[bool](t, s.Conn, "select task_id = '"+oldHolder+"' from pgqueue.unique_lock")
					if kept != want {
						t.Errorf("the old holder has the key: %v, want %v", kept, want)
					}
					if name == "retry" { // by hand nobody takes the key off the old row
						checkInvariants(t, s.Conn)
					}
				}
			}
			second := map[string]string{"retry": "f", "by hand": "t"}[name]
			interleave.Run(t, interleave.Spec{
				Setup:      settledHolder,
				Isolations: interleave.AllLevels,
				Sessions: []interleave.Session{
					{Name: "operator", Isolation: interleave.ReadCommitted, Setup: []string{"begin"}, Steps: []interleave.Step{
						{Name: "retry", SQL: retry}, {Name: "retry commits", SQL: "commit"}, {Name: "retry rolls back", SQL: "rollback"},
					}},
					{Name: "producer", Setup: []string{"begin"}, Steps: []interleave.Step{
						{Name: "enqueue", SQL: askK}, {Name: "enqueue commits", SQL: "commit"}, {Name: "enqueue rolls back", SQL: "rollback"},
					}},
				},
				Orders: []interleave.Order{
					{Name: "retry commits first", After: keeps(true), Steps: []interleave.At{
						{Step: "retry", Rows: []string{"t"}},
						{Step: "enqueue", Blocks: true, Rows: []string{"REUSED|t"}, ErrorAt: race40001},
						{Step: "retry commits", Unblocks: []string{"enqueue"}},
						{Step: "enqueue commits"},
					}},
					{Name: "retry rolls back", After: keeps(false), Steps: []interleave.At{
						{Step: "retry", Rows: []string{"t"}},
						{Step: "enqueue", Blocks: true, Rows: []string{"CREATED|f"}},
						{Step: "retry rolls back", Unblocks: []string{"enqueue"}},
						{Step: "enqueue commits"},
					}},
					{Name: "enqueue commits first", After: keeps(false), Steps: []interleave.At{
						{Step: "enqueue", Rows: []string{"CREATED|f"}},
						{Step: "retry", Blocks: true, Rows: []string{second}},
						{Step: "enqueue commits", Unblocks: []string{"retry"}},
						{Step: "retry commits"},
					}},
					{Name: "enqueue rolls back", After: keeps(true), Steps: []interleave.At{
						{Step: "enqueue", Rows: []string{"CREATED|f"}},
						{Step: "retry", Blocks: true, Rows: []string{"t"}},
						{Step: "enqueue rolls back", Unblocks: []string{"retry"}},
						{Step: "retry commits"},
					}},
				},
			})
		})
	}
}

// A13, A14: an enqueue that finds that a retry was faster gets a duplicate like any other: it leaves no lock on the holder's row.
func TestA14_RetriedHolderIsNotLocked(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.create(t, e.active("k"))
	e.settle(t, id, gen.TaskStatusFailed)
	operator, producer := e.session(t, readCommitted), e.session(t, readCommitted)
	exec(t, operator, "begin")
	e.retry(t, operator, id)
	exec(t, producer, "begin")
	done := e.blocked(t, producer, e.active("k"))
	exec(t, operator, "commit")
	got := wait(t, done)
	if got.err != nil {
		t.Fatal(got.err)
	}
	wantReused(t, got.receipt, id, gen.DuplicateMatchActive)
	e.complete(t, e.pool, e.claim(t, e.pool, e.lease(t, time.Minute), id))
	exec(t, producer, "commit")
	e.create(t, e.active("k"))
}

// A14: the same for the second attempt of the old row to come: a late outcome of a LOST holder waits for the takeover and then
// goes onto its own row only.
func TestA14_LateOutcomeRacesTakeover(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	old := e.create(t, e.active("k"))
	e.lastAttempt(t, old)
	execution := e.claim(t, e.pool, e.lease(t, time.Minute), old)
	e.expireLeases(t)
	e.reap(t, e.pool)

	producer, worker := e.session(t, readCommitted), e.session(t, readCommitted)
	exec(t, producer, "begin")
	next := wantCreated(t, enqueue(t, producer, e.active("k")))
	done := make(chan error, 1)
	go func() {
		_, err := gen.Complete(t.Context(), worker, gen.CompleteParams{TaskID: old, LeaseNumber: execution.LeaseNumber, Namespace: &e.ns})
		done <- err
	}()
	pgtest.WaitBlocked(t, e.pool, worker.PgConn().PID())
	exec(t, producer, "commit")
	if err := wait(t, done); err != nil {
		t.Fatal(err)
	}
	if status := e.task(t, old).Status; status != gen.TaskStatusSuccessful {
		t.Errorf("the old row is %s", status)
	}
	if holder := e.keyHolder(t); holder != next {
		t.Errorf("the key points to %s, want %s", holder, next)
	}
	checkInvariants(t, e.pool)
}
