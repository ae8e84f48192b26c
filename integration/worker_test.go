package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/pgqueue"
)

func TestWorkerCompletes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
		if task.Attempt != 1 || task.Name != "job" || task.Queue != "default" {
			return fmt.Errorf("unexpected task %+v", task)
		}
		return task.SetResult(map[string]int{"doubled": 2 * task.Args.N})
	})
	id := h.enqueue(t, 21)
	start(t, w)
	task := h.awaitStatus(t, id, pgqueue.Successful)
	if string(task.Result) != `{"doubled": 42}` || task.FinishedAt == nil || task.Attempt != 1 {
		t.Errorf("task is %+v", task)
	}
}

// L4: attempts left put the task back with a backoff, and each failed attempt is kept with its error, worker and times.
func TestWorkerRetries(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
		switch task.Attempt {
		case 1:
			return pgqueue.RetryAfter(0, errors.New("not\x00 yet \xff"))
		case 2:
			panic("out of cheese")
		}
		return nil
	})
	backoff := pgqueue.Define("job", pgqueue.TaskOptions[job]{Backoff: time.Millisecond})
	receipt, err := backoff.Enqueue(t.Context(), h.Client, job{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, w)
	h.awaitStatus(t, receipt.TaskID, pgqueue.Successful)
	attempts, err := h.Attempts(t.Context(), receipt.TaskID)
	if err != nil || len(attempts) != 2 {
		t.Fatalf("attempts %+v, %v", attempts, err)
	}
	first, second := attempts[0], attempts[1]
	if first.Error == nil || *first.Error != "not\ufffd yet \ufffd" || first.Outcome != "FAILED" || *first.Worker != "quick" || first.StartedAt == nil {
		t.Errorf("first attempt is %+v", first)
	}
	if *second.Error != "panic: out of cheese" || second.ErrorTrace == nil || !strings.Contains(*second.ErrorTrace, "TestWorkerRetries") {
		t.Errorf("second attempt is %+v", second)
	}
}

func TestWorkerSpendsAttempts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return pgqueue.RetryAfter(0, errors.New("never")) })
	id := h.enqueue(t, 1, pgqueue.WithMaxAttempts(3))
	start(t, w)
	if task := h.awaitStatus(t, id, pgqueue.Failed); task.Attempt != 3 {
		t.Errorf("attempts: %d, want 3", task.Attempt)
	}
}

// L9: snooze and discard from inside a handler.
func TestWorkerSnoozesAndDiscards(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	var mu sync.Mutex
	runs := map[pgqueue.TaskID]int{}
	pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
		mu.Lock()
		defer mu.Unlock()
		runs[task.ID]++
		switch {
		case task.Args.N == 1 && runs[task.ID] < 3:
			return fmt.Errorf("later: %w", pgqueue.Snooze(0))
		case task.Args.N == 2:
			return pgqueue.Discard(errors.New("no use"))
		}
		return nil
	})
	snoozed, discarded := h.enqueue(t, 1, pgqueue.WithMaxAttempts(1)), h.enqueue(t, 2)
	stop := start(t, w)
	if task := h.awaitStatus(t, snoozed, pgqueue.Successful); task.Attempt != 1 {
		t.Errorf("attempt is %d, snoozed ones should not count", task.Attempt)
	}
	h.awaitStatus(t, discarded, pgqueue.Discarded)
	stop()
	if runs[snoozed] != 3 || runs[discarded] != 1 {
		t.Errorf("runs: %v", runs)
	}
	attempts, err := h.Attempts(t.Context(), discarded)
	if err != nil || len(attempts) != 1 || attempts[0].Outcome != "DISCARDED" || *attempts[0].Error != "discard: no use" {
		t.Errorf("attempts of the discarded task: %+v, %v", attempts, err)
	}
}

func TestWorkerTimeout(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	slow := pgqueue.Define("slow", pgqueue.TaskOptions[job]{Timeout: 30 * time.Millisecond, MaxAttempts: 1})
	pgqueue.Handle(w, slow, func(ctx context.Context, _ *pgqueue.Task[job]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	receipt, err := slow.Enqueue(t.Context(), h.Client, job{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, w)
	h.awaitStatus(t, receipt.TaskID, pgqueue.Failed)
	attempts, err := h.Attempts(t.Context(), receipt.TaskID)
	if err != nil || len(attempts) != 1 || !strings.Contains(*attempts[0].Error, "timed out") {
		t.Errorf("attempts: %+v, %v", attempts, err)
	}
}

// L8: a cancel reaches the handler's context at the next renewal, and the attempt ends as DISCARDED.
func TestWorkerCancel(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	running := make(chan struct{})
	pgqueue.Handle(w, plainJob, func(ctx context.Context, _ *pgqueue.Task[job]) error {
		close(running)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	id := h.enqueue(t, 1)
	start(t, w)
	receive(t, running, "the start of the task")
	status, err := h.Cancel(t.Context(), id)
	if err != nil || status != pgqueue.Running {
		t.Fatalf("Cancel: %s, %v", status, err)
	}
	h.awaitStatus(t, id, pgqueue.Discarded)
}

func TestWorkerUnknownTask(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick()
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	receipt, err := h.Enqueue(t.Context(), pgqueue.Request{TaskName: "strange", MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	start(t, w)
	h.awaitStatus(t, receipt.TaskID, pgqueue.Failed)
}

// Each of many tasks runs once, with several workers at them.
func TestWorkersShareTasks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const tasks = 2000
	requests := make([]pgqueue.Request, tasks)
	for i := range requests {
		requests[i] = pgqueue.Request{TaskName: "job", Payload: fmt.Appendf(nil, `{"n": %d}`, i)}
	}
	if _, err := h.EnqueueMany(t.Context(), requests, pgqueue.BatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	runs := make([]int, tasks)
	var workers sync.WaitGroup
	for range 3 {
		w := h.quick(func(c *pgqueue.WorkerConfig) { c.ExitWhenEmpty, c.Lease = true, 30*time.Second })
		pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
			mu.Lock()
			defer mu.Unlock()
			runs[task.Args.N]++
			return nil
		})
		workers.Go(func() {
			if err := w.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	for n, count := range runs {
		if count != 1 {
			t.Errorf("task %d ran %d times", n, count)
		}
	}
	stats, err := h.Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Successful != tasks {
		t.Errorf("stats: %+v, %v", stats, err)
	}
}

// A notification wakes an idle worker long before its poll interval.
func TestWorkerListens(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick(func(c *pgqueue.WorkerConfig) { c.PollInterval = time.Hour })
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	start(t, w)
	h.awaitWaiting(t)
	h.awaitStatus(t, h.enqueue(t, 1), pgqueue.Successful)
}

// case_C52: a listener whose connection dies comes back, and looks for what came meanwhile.
func TestWorkerListensAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.quick(func(c *pgqueue.WorkerConfig) { c.PollInterval = time.Hour })
	pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	start(t, w)
	h.awaitWaiting(t)
	for n := range 3 {
		h.exec(t, `select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity
			where datname = current_database() and query like 'listen %'`)
		h.awaitStatus(t, h.enqueue(t, n), pgqueue.Successful)
	}
}

// awaitWaiting waits until the worker has said that it waits for notifications, and listens.
func (h *house) awaitWaiting(t *testing.T) {
	t.Helper()
	conn := h.db.Conn(t)
	deadline := time.Now().Add(patience)
	for waiting := false; !waiting; time.Sleep(5 * time.Millisecond) {
		err := conn.QueryRow(t.Context(), `select exists (select from pgqueue.queue where waiting_until > now())
			and exists (select from pg_catalog.pg_stat_activity where datname = current_database() and query like 'listen %' and state = 'idle')`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker does not wait")
		}
	}
}

// I7: workers work at READ COMMITTED whatever the database's default is. case_C06.
func TestWorkerAtSerializableDefault(t *testing.T) {
	t.Parallel()
	h := newHouse(t, pgtest.WithIsolation("serializable"))
	var workers sync.WaitGroup
	for range 200 {
		h.enqueue(t, 1)
	}
	for range 3 {
		w := h.quick(func(c *pgqueue.WorkerConfig) { c.ExitWhenEmpty, c.Lease = true, 30*time.Second })
		pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
		workers.Go(func() {
			if err := w.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	var left, attempts int
	err := h.db.Conn(t).QueryRow(t.Context(), `select count(*) filter (where status <> 'SUCCESSFUL'), max(attempt) from pgqueue.task`).Scan(&left, &attempts)
	if err != nil || left != 0 || attempts != 1 {
		t.Errorf("%d tasks left, at most %d attempts, %v", left, attempts, err)
	}
}
