package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	workerConcurrency = 100
	warmTasks         = 1000
)

// workCell lets a worker process settle tasks that are there before it begins.
type workCell struct {
	system system
	label  string // of the database
	tasks  int    // to measure
	mark   int    // size of the windows
	// backlog is what is pending, half of it not due: the worker stops after so many tasks of it. It is loaded once and kept.
	backlog int
	// keep leaves the tables as they are, with what they hold besides.
	keep bool
	// snapshot is held by another session from before the worker's first claim on.
	snapshot bool
}

func (e *env) work(ctx context.Context, c workCell) (s sample, err error) {
	i, err := e.instance(ctx, c.system, c.label)
	if err != nil {
		return s, err
	}
	pool, q, err := i.connect(ctx, 1)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	before, w, err := e.readyWorker(ctx, i, q, c)
	if err != nil {
		return s, err
	}
	if c.snapshot {
		release, holdErr := i.holdSnapshot(ctx)
		if holdErr != nil {
			return s, w.abandon(holdErr)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	start, err := e.read(ctx)
	if err != nil {
		return s, w.abandon(err)
	}
	if err := w.begin(); err != nil {
		return s, w.abandon(err)
	}
	if _, err := w.await(eventMark, c.tasks); err != nil {
		return s, err
	}
	byHandlers := c.backlog > 0 || c.keep // nobody sees fast enough from outside when just these are settled
	if !byHandlers {
		if err := untilSettled(ctx, q); err != nil {
			return s, w.abandon(err)
		}
	}
	settled := time.Now().UnixNano()
	last, err := w.end()
	if err != nil {
		return s, err
	}
	took := time.Duration(settled - w.marks[0].At)
	handlers, err := w.between(c.tasks)
	if err != nil {
		return s, err
	}
	if byHandlers {
		took = handlers * time.Duration(last.Tasks) / time.Duration(c.tasks)
	}
	if s, err = e.since(ctx, start, last.Tasks, took); err != nil {
		return s, err
	}
	s.ClientMicros = micros(last.CPU) / float64(last.Tasks)
	s.Extra = map[string]float64{"handlers_per_second": float64(c.tasks) / handlers.Seconds(), "worker_peak_bytes": float64(last.Peak), "worker_bytes": float64(last.Memory)}
	if s.Windows, err = w.windows(c.mark, c.tasks); err != nil {
		return s, err
	}
	if err := checkWork(ctx, q, c, before, last.Tasks); err != nil {
		return s, err
	}
	return s, i.leave(ctx, byHandlers)
}

// readyWorker brings the tables into the cell's state, and a warm worker process with them.
func (e *env) readyWorker(ctx context.Context, i *instance, q queue, c workCell) (before counts, w *workerProcess, err error) {
	if before, err = q.count(ctx); err != nil {
		return before, nil, err
	}
	if c.backlog > 0 {
		// The warm-up takes from the backlog too.
		if before.pending == 0 {
			if err := e.load(ctx, q, c.backlog, true); err != nil {
				return before, nil, err
			}
		}
	} else {
		if !c.keep {
			if err := i.empty(ctx); err != nil {
				return before, nil, err
			}
		}
		if err := e.load(ctx, q, warmTasks, false); err != nil {
			return before, nil, err
		}
	}
	w, err = startWorker(ctx, workerSpec{System: i.name, URL: i.url, Concurrency: workerConcurrency, Warm: warmTasks, Mark: c.mark})
	if err != nil {
		return before, nil, err
	}
	if before, err = e.loadCell(ctx, i, q, c); err != nil {
		return before, nil, w.abandon(err)
	}
	return before, w, nil
}

func (e *env) load(ctx context.Context, q queue, tasks int, half bool) error {
	if err := e.checkpoint(ctx); err != nil {
		return err
	}
	return q.load(ctx, tasks, half)
}

// loadCell loads what is to be measured, after the warm-up.
func (e *env) loadCell(ctx context.Context, i *instance, q queue, c workCell) (before counts, err error) {
	if c.backlog == 0 {
		if !c.keep {
			if err := i.empty(ctx); err != nil {
				return before, err
			}
		}
		if err := q.load(ctx, c.tasks, false); err != nil {
			return before, err
		}
	}
	if !c.keep {
		if err := i.vacuum(ctx); err != nil {
			return before, err
		}
	}
	return q.count(ctx)
}

// untilSettled waits until no task is pending in the database.
func untilSettled(ctx context.Context, q queue) error {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		busy, err := q.busy(waiting)
		if err != nil || !busy {
			return err
		}
		if err := pause(waiting, time.Millisecond); err != nil {
			return fmt.Errorf("tasks were handled but are not settled: %w", err)
		}
	}
}

func checkWork(ctx context.Context, q queue, c workCell, before counts, handled int) error {
	if c.backlog == 0 && handled != c.tasks {
		return fmt.Errorf("%s: %d tasks were handled, not %d", c.system.name, handled, c.tasks)
	}
	after, err := q.count(ctx)
	if err != nil {
		return err
	}
	want := counts{before.pending - handled, before.settled + handled}
	if before.settled == noHistory {
		want.settled = noHistory
	}
	if after != want {
		return fmt.Errorf("%s: after %d handled tasks the database has %d pending and %d settled ones, not %d and %d",
			c.system.name, handled, after.pending, after.settled, want.pending, want.settled)
	}
	return nil
}

// holdSnapshot opens a REPEATABLE READ transaction beside the work, as a long report does.
func (i *instance) holdSnapshot(ctx context.Context) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, i.url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "begin isolation level repeatable read; select count(*) from pg_class")
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := conn.Exec(closing, "commit")
		return errors.Join(err, conn.Close(closing))
	}, nil
}
