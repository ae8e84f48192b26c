package integration_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// settled makes a task of each settled status.
func (e *env) settled(t testing.TB) map[gen.TaskStatus]uuid.UUID {
	t.Helper()
	made := map[gen.TaskStatus]uuid.UUID{}
	for _, status := range []gen.TaskStatus{gen.TaskStatusSuccessful, gen.TaskStatusFailed, gen.TaskStatusLost, gen.TaskStatusDiscarded} {
		id := e.add(t, gen.EnqueueParams{Queue: ptr(string(status)), MaxAttempts: ptr(1)})
		lease := e.lease(t, time.Minute)
		task := e.claim(t, e.pool, lease, id, string(status))
		switch status {
		case gen.TaskStatusSuccessful:
			e.complete(t, e.pool, task)
		case gen.TaskStatusLost:
			e.expire(t, lease)
			e.reap(t, e.pool)
		default:
			e.fail(t, e.pool, task, gen.TaskStatusFailed)
			if status == gen.TaskStatusDiscarded {
				e.discard(t, e.pool, id)
			}
		}
		made[status] = id
	}
	return made
}

// L10: each status has its retention, FAILED and LOST are kept unless asked, and a pending task is never deleted.
func TestPruneRetention(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	made := e.settled(t)
	pending := e.add(t, gen.EnqueueParams{Delay: ptr(time.Hour)})
	window := e.create(t, e.window("w", time.Hour))
	e.discard(t, e.pool, window)
	prune := func(p gen.PruneParams, want int64, left ...gen.TaskStatus) {
		t.Helper()
		p.Namespace = &e.ns
		pruned, err := gen.Prune(t.Context(), e.pool, p)
		if err != nil || pruned.Tasks != want {
			t.Errorf("pruned %s, %v; want %d tasks", show(pruned), err, want)
		}
		for _, status := range left {
			e.task(t, made[status])
		}
		e.task(t, pending)
	}
	all := []gen.TaskStatus{gen.TaskStatusSuccessful, gen.TaskStatusFailed, gen.TaskStatusLost, gen.TaskStatusDiscarded}
	prune(gen.PruneParams{}, 0, all...)
	clock.forward(t, 7*24*time.Hour-time.Second)
	prune(gen.PruneParams{}, 0, all...)
	clock.forward(t, time.Minute)
	prune(gen.PruneParams{DiscardedRetention: ptr(8 * 24 * time.Hour)}, 1, all[1:]...)
	prune(gen.PruneParams{}, 2, gen.TaskStatusFailed, gen.TaskStatusLost) // the discarded one, and the one with the window
	prune(gen.PruneParams{FailedRetention: ptr(time.Hour)}, 1, gen.TaskStatusLost)
	prune(gen.PruneParams{LostRetention: ptr(time.Hour)}, 1)
	if n := value[int](t, e.pool, "select count(*) from pgqueue.unique_window where namespace = $1::text", e.ns); n != 0 {
		t.Errorf("%d expired windows are left", n)
	}
	if n := value[int](t, e.pool, "select count(*) from pgqueue.attempt where namespace = $1::text", e.ns); n != 0 {
		t.Errorf("%d attempts of pruned tasks are left", n)
	}
	checkInvariants(t, e.pool)
}

// L10: batches are bounded, last_id carries on, and rows that another session holds are passed over: a second pruner waits for nothing.
// case_C57.
func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "select pgqueue.discard((r).task_id, $1::text) from (select pgqueue.enqueue('work', namespace => $1::text) as r from generate_series(1, 250) offset 0) s", e.ns)
	p := gen.PruneParams{Retention: ptr(time.Duration(0)), MaxTasks: ptr(100), Namespace: &e.ns}
	first := e.session(t, readCommitted)
	exec(t, first, "begin")
	pruned, err := gen.Prune(t.Context(), first, p)
	if err != nil || pruned.Tasks != 100 || pruned.LastID == nil {
		t.Fatalf("pruned %s, %v", show(pruned), err)
	}
	second := e.session(t, readCommitted)
	exec(t, second, "set lock_timeout = '1ms'")
	for _, want := range []int64{100, 50, 0} {
		pruned, err := gen.Prune(t.Context(), second, p)
		if err != nil || pruned.Tasks != want {
			t.Fatalf("the second pruned %s, %v; want %d", show(pruned), err, want)
		}
		p.After = pruned.LastID
	}
	exec(t, first, "commit")
	if n := e.tasks(t); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// L10: the procedure commits after each batch: what is done stays done when it is ended.
func TestMaintainAll(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "select pgqueue.discard((r).task_id, $1::text) from (select pgqueue.enqueue('work', namespace => $1::text) as r from generate_series(1, 30) offset 0) s", e.ns)
	conn := e.session(t, readCommitted)
	// The third batch meets a row that cannot be deleted.
	exec(t, e.pool, `create function public.stop() returns trigger language plpgsql as $$
		begin if (select count(*) from pgqueue.task) <= 10 then raise exception 'stop'; end if; return old; end $$`)
	exec(t, e.pool, "create trigger stop before delete on pgqueue.task for each row execute function public.stop()")
	_, err := conn.Exec(t.Context(), "call pgqueue.maintain_all(retention => '0', batch => 10, namespace => '"+e.ns+"')")
	wantError(t, err, "P0001")
	if n := e.tasks(t); n != 10 {
		t.Errorf("%d tasks are left, want those of the batch that failed", n)
	}
	exec(t, e.pool, "drop trigger stop on pgqueue.task")
	exec(t, conn, "call pgqueue.maintain_all(retention => '0', batch => 10, namespace => '"+e.ns+"')")
	if n := e.tasks(t); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// L11, case_C42: a client that lives an hour ahead or behind changes nothing: delays, leases and windows run by the server's clock.
func TestServerTime(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	server := time.Now().Add(-1000 * 24 * time.Hour).UTC().Truncate(time.Microsecond) // far from this process's clock
	clock.stop(t, server)
	delayed := e.add(t, gen.EnqueueParams{Delay: ptr(time.Minute)})
	window := e.create(t, e.window("w", time.Minute))
	e.discard(t, e.pool, window)
	if task := e.task(t, delayed); !task.CreatedAt.Equal(server) || !task.RunAfter.Equal(server.Add(time.Minute)) {
		t.Errorf("task is %s, the server's time %s", show(task), server)
	}
	lease := e.lease(t, 2*time.Minute)
	if c := e.claimMany(t, e.pool, lease, 1); len(c) != 0 {
		t.Errorf("claimed before it was due: %s", show(c))
	}
	clock.forward(t, time.Minute)
	task := e.claim(t, e.pool, lease, delayed)
	wantCreated(t, e.enqueue(t, e.window("w", time.Minute)))
	if reaped := e.reap(t, e.pool); reaped.Requeued != 0 {
		t.Errorf("reaped %s before the lease's end", show(reaped))
	}
	clock.forward(t, time.Minute)
	if reaped := e.reap(t, e.pool); reaped.Requeued != 1 {
		t.Errorf("reaped %s at the lease's end", show(reaped))
	}
	e.wantFenced(t, task)
}

// I4 in SQL: with the foreign server pgqueue_loopback, a holder that changed after the snapshot and is pending still is REUSED.
func TestFreshReadOverDblink(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.loopback(t)
	exec(t, e.pool, "select public.dblink_connect('probe', 'pgqueue_loopback'), public.dblink_disconnect('probe')")
	for _, level := range []string{repeatableRead, serializable} {
		e := e.scope()
		id := e.create(t, e.active("k"))
		conn := e.session(t, level)
		exec(t, conn, "begin")
		exec(t, conn, "select count(*) from pgqueue.task")
		exec(t, e.pool, "update pgqueue.task set priority = 9 where id = $1::uuid", id.String())
		receipt := enqueue(t, conn, e.active("k"))
		wantReused(t, receipt, id, gen.DuplicateMatchActive)
		if *receipt.Priority != 9 {
			t.Errorf("%s is not the fresh row", show(receipt))
		}
		e.discard(t, e.pool, id)
		wantRefusal(t, tryEnqueue(t, conn, e.active("k")), "40001")
		exec(t, conn, "commit")
		if open := value[bool](t, conn, "select public.dblink_get_connections() is null"); !open {
			t.Error("a dblink connection is left open")
		}
	}
}

// loopback sets the foreign server up, as docs/loopback.md says. The server connects to itself, so the address is the server's own
// view of this connection.
func (e *env) loopback(t testing.TB) {
	t.Helper()
	exec(t, e.pool, "create extension dblink schema public")
	port := value[string](t, e.pool, "select current_setting('port')")
	host := value[string](t, e.pool, "select btrim(split_part(current_setting('unix_socket_directories'), ',', 1), '\"')")
	config, err := pgx.ParseConfig(e.db.URL())
	if err != nil {
		t.Fatal(err)
	}
	quote := func(s string) string { return value[string](t, e.pool, "select quote_literal($1::text)", s) }
	exec(t, e.pool, "create server pgqueue_loopback foreign data wrapper dblink_fdw options (host "+quote(host)+", port "+quote(port)+
		", dbname "+quote(e.db.Name)+", connect_timeout '2')")
	exec(t, e.pool, "create user mapping for current_user server pgqueue_loopback options (user "+quote(config.User)+", password "+quote(config.Password)+")")
}
