package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/interleave"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// twoProducers is the same enqueue in two sessions; a's is in a transaction with a savepoint before it.
func twoProducers(setup ...string) interleave.Spec {
	ask := "select (r).disposition, (r).duplicate_match, (r).task_id is not null from (select pgqueue.enqueue_unique('send', active_key => 'k') as r) x"
	return interleave.Spec{
		Setup:      setup,
		Isolations: interleave.AllLevels,
		Sessions: []interleave.Session{
			{Name: "a", Setup: []string{"begin", "savepoint before"}, Steps: []interleave.Step{
				{Name: "a enqueues", SQL: ask}, {Name: "a commits", SQL: "commit"}, {Name: "a rolls back", SQL: "rollback"},
				{Name: "a rolls back to savepoint", SQL: "rollback to savepoint before"}, {Name: "a goes on", SQL: "commit"},
			}},
			{Name: "b", Steps: []interleave.Step{{Name: "b enqueues", SQL: ask}}},
		},
		After: func(t testing.TB, s *interleave.State) {
			want := 1
			if _, both := s.Results["a goes on"]; both && s.Results["b enqueues"].Err != nil {
				want = 0
			}
			if n := value[int](t, s.Conn, "select count(*) from pgqueue.task where status in ('READY', 'RUNNING')"); n != want {
				t.Errorf("%d pending tasks, want %d", n, want)
			}
			checkInvariants(t, s.Conn)
		},
	}
}

var (
	created = []string{"CREATED|NULL|t"}
	reused  = []string{"REUSED|ACTIVE|t"}

	waitOrders = []interleave.Order{
		{Name: "commit", Steps: []interleave.At{
			{Step: "a enqueues", Rows: created},
			{Step: "b enqueues", Blocks: true, Rows: reused, ErrorAt: race40001},
			{Step: "a commits", Unblocks: []string{"b enqueues"}},
		}},
		{Name: "rollback", Steps: []interleave.At{
			{Step: "a enqueues", Rows: created},
			{Step: "b enqueues", Blocks: true, Rows: created},
			{Step: "a rolls back", Unblocks: []string{"b enqueues"}},
		}},
		{Name: "rolled back to savepoint before", Steps: []interleave.At{
			{Step: "a enqueues", Rows: created},
			{Step: "a rolls back to savepoint"},
			{Step: "b enqueues", Rows: created},
			{Step: "a goes on"},
		}},
	}

	rollbackToSavepoint = interleave.Order{Name: "rollback to savepoint", Steps: []interleave.At{
		{Step: "a enqueues", Rows: created},
		{Step: "b enqueues", Blocks: true, Rows: created},
		{Step: "a rolls back to savepoint", Unblocks: []string{"b enqueues"}},
		{Step: "a goes on"},
	}}
	// At the stricter levels a writes in a subtransaction of the gate's own. Who waits for a row of one that has ended waits,
	// in PostgreSQL, for the whole transaction. SERIALIZABLE also remembers what a has read, and lets only one of the two go on.
	lateRollbackToSavepoint = interleave.Order{Name: "rollback to savepoint, freed at the end", Steps: []interleave.At{
		{Step: "a enqueues", Rows: created},
		{Step: "b enqueues", Blocks: true, Rows: created, ErrorAt: map[interleave.Isolation]string{interleave.Serializable: "40001"}},
		{Step: "a rolls back to savepoint"},
		{Step: "a goes on", Unblocks: []string{"b enqueues"}},
	}}
)

// A16, case_C01, case_C08, case_C44: a duplicate of an uncommitted enqueue waits for that transaction. Commit: REUSED (the race
// at the stricter levels, case_C02); rollback, also to a savepoint: CREATED.
func TestA16_WaitsForAnUncommittedEnqueue(t *testing.T) {
	t.Parallel()
	runWaits(t)
}

// runWaits runs the orders with a at READ COMMITTED and b at every level, then with both at the stricter levels.
func runWaits(t *testing.T, setup ...string) {
	t.Run("a at read committed", func(t *testing.T) {
		t.Parallel()
		spec := twoProducers(setup...)
		spec.Sessions[0].Isolation = interleave.ReadCommitted
		spec.Orders = append([]interleave.Order{rollbackToSavepoint}, waitOrders...)
		interleave.Run(t, spec)
	})
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		spec := twoProducers(setup...)
		spec.Isolations = []interleave.Isolation{interleave.RepeatableRead, interleave.Serializable}
		spec.Orders = append([]interleave.Order{lateRollbackToSavepoint}, waitOrders...)
		interleave.Run(t, spec)
	})
}

// A18, case_C12: the same orders over a settled holder and over one that is gone: two enqueuers that take over one key.
func TestA18_TwoTakeovers(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string][]string{
		"settled": settledHolder,
		"gone":    append(settledHolder[:3:3], "delete from pgqueue.task"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runWaits(t, setup...)
		})
	}
}

// A16, case_C07: lock_timeout bounds the wait; then the race error with the database's own error in it, and nothing was written.
// A caller that does not want to wait gets it at once.
func TestA16_BoundedWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels {
		for _, name := range []string{"free", "settled", "window"} {
			t.Run(level+"/"+name, func(t *testing.T) {
				e := e.scope()
				r := e.active("k")
				switch name {
				case "settled":
					e.discard(t, e.pool, e.create(t, r))
				case "window":
					r = e.window("k", time.Hour)
				}
				rows := e.rows(t)
				first := e.session(t, readCommitted)
				exec(t, first, "begin")
				wantCreated(t, enqueue(t, first, r))

				limited := e.session(t, level, pgtest.RuntimeParam("lock_timeout", "50ms"))
				_, err := gen.EnqueueUnique(t.Context(), limited, r)
				failed := wantRace(t, err, "lock_timeout")
				if text := "canceling statement due to lock timeout"; !strings.Contains(failed.Message, text) || member(t, []byte(failed.Detail), "error") != text {
					t.Errorf("the error is %s, %s; want the server's own text in it", failed.Message, failed.Detail)
				}
				exec(t, limited, "begin")
				got := tryEnqueue(t, limited, r)
				wantRefusal(t, got, "40001")
				if cause := member(t, got.ErrorDetail, "cause"); cause != "lock_timeout" {
					t.Errorf("the cause is %s", cause)
				}
				exec(t, limited, "commit")

				// Unbounded but for wait => false, and the caller's own bound stays what it was.
				atOnce := e.session(t, level, pgtest.RuntimeParam("statement_timeout", "2s"))
				r.Wait = ptr(false)
				_, err = gen.EnqueueUnique(t.Context(), atOnce, r)
				wantRace(t, err, "busy")
				exec(t, atOnce, "begin")
				exec(t, atOnce, "set local lock_timeout = '7s'")
				got = tryEnqueue(t, atOnce, r)
				wantRefusal(t, got, "40001")
				free := e.active("another key")
				free.Wait = ptr(false)
				enqueue(t, atOnce, free)
				if bound := value[string](t, atOnce, "select current_setting('lock_timeout')"); bound != "7s" {
					t.Errorf("lock_timeout became %s", bound)
				}
				exec(t, atOnce, "rollback")

				exec(t, first, "rollback")
				if n := e.rows(t); n != rows {
					t.Errorf("%d rows are left, want %d", n, rows)
				}
				wantCreated(t, enqueue(t, limited, r))
				checkInvariants(t, e.pool)
			})
		}
	}
}

// A16, case_C07: a wait that ends by statement_timeout or by the client's cancel is that error, and writes nothing.
func TestA16_CancelledWait(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.session(t, readCommitted)
	exec(t, first, "begin")
	wantCreated(t, enqueue(t, first, e.active("k")))
	second := e.session(t, readCommitted, pgtest.RuntimeParam("statement_timeout", "50ms"))
	_, err := gen.EnqueueUnique(t.Context(), second, e.active("k"))
	wantError(t, err, "57014")
	third := e.session(t, readCommitted)
	done := e.blocked(t, third, e.active("k"))
	exec(t, e.pool, "select pg_cancel_backend($1::int)", int(third.PgConn().PID()))
	wantError(t, wait(t, done).err, "57014")
	exec(t, first, "rollback")
	if n := e.rows(t); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A16, case_C07: a prepared transaction that has the key holds it like an open one, without a session.
func TestA16_PreparedTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, end := range []string{"commit prepared", "rollback prepared"} {
		e := e.scope()
		name := "'" + e.db.Name + end + "'"
		first := e.session(t, readCommitted)
		exec(t, first, "begin")
		id := wantCreated(t, enqueue(t, first, e.active("k")))
		exec(t, first, "prepare transaction "+name)
		first.Close(t.Context())

		done := e.blocked(t, e.session(t, readCommitted), e.active("k"))
		exec(t, e.pool, end+" "+name)
		got := wait(t, done)
		if got.err != nil {
			t.Fatal(got.err)
		}
		if end == "commit prepared" {
			wantReused(t, got.receipt, id, gen.DuplicateMatchActive)
		} else {
			wantCreated(t, got.receipt)
		}
		checkInvariants(t, e.pool)
	}
}
