package integration_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// A10: uniqueness is the lock table's primary key.
func TestA10_PrimaryKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, table := range []string{"unique_lock", "unique_window"} {
		got := value[string](t, e.pool, `select pg_catalog.pg_get_constraintdef(oid) from pg_catalog.pg_constraint
			where conrelid = ('pgqueue.' || $1::text)::regclass and contype = 'p'`, table)
		if got != "PRIMARY KEY (namespace, key)" {
			t.Errorf("%s: %s", table, got)
		}
	}
}

// A10: lock row, window row and task row are written in one transaction: both commit or neither, whatever ends it.
func TestA10_BothCommitOrNeither(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, `create function public.refuse() returns trigger language plpgsql as $$
		begin if new.name = 'refused' then raise exception 'refused' using errcode = 'PT001'; end if; return new; end $$`)
	exec(t, e.pool, "create trigger refuse before insert on pgqueue.task for each row execute function public.refuse()")
	both := e.window("w", time.Hour)
	both.ActiveKey = ptr("k")
	refused := both
	refused.TaskName = "refused"
	for _, level := range levels {
		conn := e.session(t, level)
		// The task's row cannot be written.
		_, err := gen.EnqueueUnique(t.Context(), conn, refused)
		wantError(t, err, "PT001")
		// The transaction ends, or its session does.
		exec(t, conn, "begin")
		wantCreated(t, enqueue(t, conn, both))
		exec(t, conn, "rollback")
		exec(t, conn, "begin")
		wantCreated(t, enqueue(t, conn, both))
		pid := conn.PgConn().PID()
		conn.Close(t.Context())
		waitGone(t, e, pid)
		if n := e.rows(t); n != 0 {
			t.Fatalf("%s: %d rows are left", level, n)
		}
	}
	id := e.create(t, both)
	if holder := e.keyHolder(t); holder != id {
		t.Errorf("the key points to %s, want %s", holder, id)
	}
	if n := e.rows(t); n != 3 {
		t.Errorf("%d rows, want task, lock and window", n)
	}
}

// waitGone waits until the server has ended a session.
func waitGone(t *testing.T, e *env, pid uint32) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if n := value[int](t, e.pool, "select count(*) from pg_catalog.pg_stat_activity where pid = $1::int", int(pid)); n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("backend %d does not end", pid)
		}
	}
}

// case_C05, A1, A10: many sessions enqueue one key at the same moment: one CREATED, the others REUSED with its id, no other
// answer. At the stricter levels the others may have lost a race, and a new try finds the task.
func TestCase_C05_ManyRacersOneKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels {
		for _, racers := range []int{8, 32} {
			for _, before := range []string{"free", "settled", "window"} {
				t.Run(fmt.Sprintf("%s/%d/%s", level, racers, before), func(t *testing.T) {
					e := e.scope()
					r := e.active("k")
					switch before {
					case "settled":
						e.discard(t, e.pool, e.create(t, r))
					case "window":
						r = e.window("k", time.Hour)
						r.ActiveKey = ptr("k")
					}
					raceForOneKey(t, e, level, racers, r)
				})
			}
		}
	}
}

func raceForOneKey(t *testing.T, e *env, level string, racers int, r request) {
	t.Helper()
	conns := make([]*pgx.Conn, racers)
	for i := range conns {
		conns[i] = e.session(t, level)
	}
	begin := make(chan struct{})
	answers := make([]answer, racers)
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			<-begin
			answers[i].receipt, answers[i].err = gen.EnqueueUnique(t.Context(), conn, r)
		})
	}
	close(begin)
	all.Wait()
	var created []uuid.UUID
	for _, a := range answers {
		if a.err == nil && a.receipt.Disposition == gen.DispositionCreated {
			created = append(created, wantCreated(t, a.receipt))
		}
	}
	if len(created) != 1 {
		t.Fatalf("%d of %d created a task", len(created), racers)
	}
	match := gen.DuplicateMatchActive
	if r.WindowKey != nil {
		match = gen.DuplicateMatchBoth
	}
	for i, a := range answers {
		if a.err != nil {
			if level == readCommitted {
				t.Fatalf("an error at READ COMMITTED: %v", a.err)
			}
			wantError(t, a.err, "40001")
			a.receipt = enqueue(t, conns[i], r)
		}
		if a.receipt.Disposition == gen.DispositionReused {
			wantReused(t, a.receipt, created[0], match)
		}
		conns[i].Close(t.Context())
	}
	checkInvariants(t, e.pool)
}
