package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// A worker whose context ends waits for what runs.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	running, finish := make(chan struct{}), make(chan struct{})
	pgqueue.Handle(w, plainJob, func(ctx context.Context, _ *pgqueue.Task[job]) error {
		close(running)
		<-finish
		return ctx.Err()
	})
	id := h.enqueue(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	receive(t, running, "the start of the task")
	cancel()
	// Not due at once: a claim that is on its way is not broken off.
	later := h.enqueue(t, 2, pgqueue.WithDelay(200*time.Millisecond))
	select {
	case err := <-ended:
		t.Fatalf("Run ended with a task running: %v", err)
	case <-time.After(700 * time.Millisecond): // longer than the lease, which is renewed meanwhile
	}
	close(finish)
	if err := receive(t, ended, "the end of Run"); err != nil {
		t.Fatal(err)
	}
	h.awaitStatus(t, id, pgqueue.Successful)
	if task := h.awaitStatus(t, later, pgqueue.Ready); task.Attempt != 0 {
		t.Errorf("a draining worker claimed a task: %+v", task)
	}
	h.mustHaveNoLease(t)
}

// An abandoned worker cancels what runs, and the tasks go back uncounted.
func TestWorkerAbandons(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	running := make(chan struct{}, 1)
	cause := make(chan error, 1)
	pgqueue.Handle(w, plainJob, func(ctx context.Context, _ *pgqueue.Task[job]) error {
		running <- struct{}{}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	id := h.enqueue(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	receive(t, running, "the start of the task")
	cancel()
	w.Abandon()
	if err := receive(t, ended, "the end of Run"); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, cause, "the end of the handler"); !errors.Is(err, pgqueue.ErrShutdown) {
		t.Errorf("cause is %v", err)
	}
	if task := h.awaitStatus(t, id, pgqueue.Ready); task.Attempt != 0 || task.LeaseNumber != 2 {
		t.Errorf("task is %+v", task)
	}
	h.mustHaveNoLease(t)
}

// L2: a worker whose lease was taken away stops its tasks, and what they come to is refused.
func TestWorkerLosesLease(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	started := make(chan int, 1)
	cause := make(chan error, 1)
	pgqueue.Handle(w, plainJob, func(ctx context.Context, task *pgqueue.Task[job]) error {
		started <- task.Attempt
		if task.Attempt == 1 {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		return nil // the first one too: its success must not count
	})
	id := h.enqueue(t, 1)
	start(t, w)
	receive(t, started, "the first attempt")
	// In one transaction: what the worker writes between the two would count. A claim that is under way holds the lease.
	h.exec(t, `do $$ begin
		update pgqueue.lease set expires_at = 'epoch', renewed_at = 'epoch';
		while (pgqueue.reap_lost()).requeued = 0 loop
			perform pg_catalog.pg_sleep(0.001);
		end loop;
	end $$`)
	if err := receive(t, cause, "the end of the first attempt"); !errors.Is(err, pgqueue.ErrLeaseLost) {
		t.Errorf("cause is %v", err)
	}
	if n := receive(t, started, "the second attempt"); n != 2 {
		t.Errorf("attempt %d", n)
	}
	task := h.awaitStatus(t, id, pgqueue.Successful)
	attempts, err := h.Attempts(t.Context(), id)
	if err != nil || len(attempts) != 1 || attempts[0].Outcome != "LOST" || task.LeaseNumber != 3 {
		t.Errorf("attempts %+v, %v; task %+v", attempts, err, task)
	}
}

// A claim whose answer is lost leaves tasks RUNNING that nobody runs, under a lease that is renewed. The worker gives them back.
func TestWorkerLosesClaim(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick(func(c *pgqueue.WorkerConfig) { c.Queues = []string{"default", "other"} })
	running, finish := make(chan struct{}, 10), make(chan struct{})
	pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
		running <- struct{}{}
		if task.Args.N == 1 {
			<-finish
		}
		return nil
	})
	busy := h.enqueue(t, 1)
	start(t, w)
	receive(t, running, "the start of the task")
	conn := h.db.Conn(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(sql string, args ...any) {
		t.Helper()
		if tag, err := tx.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() != 1 && !strings.HasPrefix(sql, "lock") {
			t.Fatalf("%s: %s, %v", sql, tag, err)
		}
	}
	// The next claim of the worker waits here, and its connection is cut. What it would have been told had it gone through just before
	// is claimed in its place.
	run("lock table pgqueue.queue in access exclusive mode")
	var pid uint32
	h.awaitRow(t, `select pid from pg_catalog.pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock' and query like '%pgqueue.claim(%'`, &pid)
	// In this transaction: an enqueue looks at the table that is locked.
	receipt, err := plainJob.EnqueueTx(t.Context(), h.Client, tx, job{2}, pgqueue.WithQueue("other"))
	if err != nil {
		t.Fatal(err)
	}
	lost := receipt.TaskID
	run("select pgqueue.claim((select id from pgqueue.lease), array['other'])")
	run("select pg_catalog.pg_terminate_backend($1)", pid)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.awaitStatus(t, lost, pgqueue.Successful)
	if task := h.awaitStatus(t, busy, pgqueue.Running); task.Attempt != 1 {
		t.Errorf("the task that ran all the while: %+v", task)
	}
	close(finish)
	h.awaitStatus(t, busy, pgqueue.Successful)
	if task := h.awaitStatus(t, lost, pgqueue.Successful); task.Attempt != 1 || task.LeaseNumber < 3 {
		t.Errorf("the task that was claimed twice: %+v", task)
	}
}

// A handler that does not heed its context is left behind; its task goes back, and its late success is not written.
func TestWorkerLeavesStubbornHandler(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick(func(c *pgqueue.WorkerConfig) { c.DrainTimeout = time.Millisecond })
	running, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error {
		defer close(done)
		close(running)
		<-finish
		return nil
	})
	id := h.enqueue(t, 1)
	stop := start(t, w)
	receive(t, running, "the start of the task")
	stop()
	task := h.awaitStatus(t, id, pgqueue.Ready)
	close(finish)
	receive(t, done, "the end of the handler")
	if again, err := h.Task(t.Context(), id); err != nil || again.Status != pgqueue.Ready || again.LeaseNumber != task.LeaseNumber {
		t.Errorf("task is %+v, %v", again, err)
	}
}

// A4, L5: the tasks of a worker that died come back when its lease has expired; on the last attempt they are LOST.
func TestWorkerReapsOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pool := h.db.Pool(t)
	length := 200 * time.Millisecond
	dead, err := gen.OpenLease(t.Context(), pool, gen.OpenLeaseParams{Worker: "dead", Length: &length})
	if err != nil {
		t.Fatal(err)
	}
	again, last := h.enqueue(t, 1), h.enqueue(t, 2, pgqueue.WithMaxAttempts(1))
	two := 2
	if claimed, err := gen.Claim(t.Context(), pool, gen.ClaimParams{LeaseID: dead, MaxTasks: &two}); err != nil || len(claimed) != 2 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	w := h.quick()
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	start(t, w)
	if task := h.awaitStatus(t, again, pgqueue.Successful); task.Attempt != 2 {
		t.Errorf("task is %+v", task)
	}
	h.awaitStatus(t, last, pgqueue.Lost)
}

func (h *house) mustHaveNoLease(t *testing.T) {
	t.Helper()
	var leases int
	if err := h.db.Conn(t).QueryRow(t.Context(), "select count(*) from pgqueue.lease").Scan(&leases); err != nil || leases != 0 {
		t.Errorf("%d leases are left, %v", leases, err)
	}
}
