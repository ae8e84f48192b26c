package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// stateOf drops the way from a situation's name.
func stateOf(name string) string {
	state, _, _ := strings.Cut(name, "/")
	return state
}

func waitBlocked(t *testing.T, db pgtest.Querier, conn *pgx.Conn) {
	t.Helper()
	pgtest.WaitBlocked(t, db, conn.PgConn().PID())
}

func (s *stage) forget(db gen.DB) {
	s.t.Helper()
	forgotten, err := gen.ForgetWindow(s.t.Context(), db, gen.ForgetWindowParams{TaskName: "send", WindowKey: "w", Namespace: &s.ns})
	if err != nil || !forgotten {
		s.t.Fatalf("forget_window: %v, %v", forgotten, err)
	}
}

func (s *stage) expire() { s.clock.forward(s.t, time.Hour) }

// windowSituations are the situations of a window key.
var windowSituations = map[string]situation{
	"none":                         {},
	"uncommitted":                  {after: (*stage).otherEnqueues, ends: "commit"},
	"rolled back":                  {after: (*stage).otherEnqueues, ends: "rollback"},
	"open":                         {before: (*stage).createHolder},
	"open/its task settled":        {before: steps((*stage).createHolder, (*stage).settleHolder)},
	"open/its task pruned":         {before: steps((*stage).createHolder, (*stage).settleHolder, (*stage).pruneAll)},
	"open, its task claimed after": {before: (*stage).createHolder, after: func(s *stage) { s.claimHolder(s.pool) }},
	"being removed": {before: (*stage).createHolder, after: func(s *stage) {
		exec(s.t, s.other, "begin")
		s.forget(s.other)
	}},
	"written after":             {after: (*stage).createHolder},
	"removed after":             {before: (*stage).createHolder, after: func(s *stage) { s.forget(s.pool) }},
	"expired before":            {before: steps((*stage).createHolder, (*stage).expire)},
	"expired after":             {before: (*stage).createHolder, after: (*stage).expire},
	"expired, being taken over": {before: steps((*stage).createHolder, (*stage).expire), after: (*stage).otherEnqueues, ends: "commit"},
	"expired, taken over after": {before: steps((*stage).createHolder, (*stage).expire), after: (*stage).createHolder},
	"expired, pruned after":     {before: steps((*stage).createHolder, (*stage).settleHolder, (*stage).expire), after: (*stage).pruneAll},
}

// I8: a window row visible in the snapshot and open by the server's clock answers; one that another transaction wrote, took over
// or removed after the snapshot is a race. Never a second task inside one window.
func TestI8_Windows(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	runIsolation(t, e, clock, windowIsolationTable, windowSituations, func(e *env) request { return e.window("w", time.Hour) })
}

// I8, W4: a window that another request opened after the snapshot is a conflict where it can be seen, and a race elsewhere.
func TestI8_AnotherRequestAfterTheSnapshot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels {
		e := e.scope()
		conn := e.session(t, level)
		exec(t, conn, "begin")
		value[int](t, conn, "select count(*) from pgqueue.task")
		e.create(t, e.window("w", time.Hour))
		other := e.window("w", time.Hour)
		other.Priority = ptr(1)
		got := tryEnqueue(t, conn, other)
		if level == readCommitted {
			wantRefusal(t, got, "PQ001")
		} else {
			wantRefusal(t, got, "40001")
			if cause := member(t, got.ErrorDetail, "cause"); cause != "window_changed" {
				t.Errorf("%s: the cause is %s", level, cause)
			}
		}
		exec(t, conn, "commit")
		if n := e.tasks(t); n != 1 {
			t.Errorf("%s: %d tasks", level, n)
		}
	}
}

// I2: the look at the holder's row at the stricter levels leaves no lock behind: see also A13.
func TestI2_ProbeLeavesNoLock(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.window("w", time.Hour)
	r.ActiveKey = ptr("k")
	id := e.create(t, r)
	for _, level := range levels {
		conn := e.session(t, level)
		exec(t, conn, "begin")
		wantReused(t, enqueue(t, conn, r), id, gen.DuplicateMatchBoth)
		for _, table := range []string{"task", "unique_lock", "unique_window"} {
			exec(t, e.pool, "select from pgqueue."+table+" where namespace = $1::text for update nowait", e.ns)
		}
		exec(t, conn, "commit")
	}
}

// I5: the error of a lost race is one that retry loops know, with what is needed to understand it.
func TestI5_RaceError(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	conn := e.session(t, repeatableRead)
	exec(t, conn, "begin")
	value[int](t, conn, "select count(*) from pgqueue.task")
	e.create(t, e.active("k"))
	_, err := gen.EnqueueUnique(t.Context(), conn, e.active("k"))
	failed := wantRace(t, err, "key_taken")
	if failed.SchemaName != "pgqueue" || failed.Hint == "" || !strings.HasPrefix(failed.Message, "unique_enqueue_race: ") ||
		member(t, []byte(failed.Detail), "task_name") != "send" || member(t, []byte(failed.Detail), "active_key") != "k" ||
		member(t, []byte(failed.Detail), "error") == "" {
		t.Errorf("the error is %+v", failed)
	}
	exec(t, conn, "rollback")
}
