package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pgqueue/pgqueue/gen"
)

// start runs a claimed task on a slot that the caller has taken. Handlers do not end with ctx: the worker drains.
func (w *Worker) start(ctx context.Context, s *session, task gen.ClaimedTask) {
	e := execution{task.ID, task.LeaseNumber}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.mu.Lock()
	w.running[e] = cancel
	s.open[e] = struct{}{}
	w.mu.Unlock()
	go func() {
		defer w.freeSlots(1)
		defer func() {
			w.mu.Lock()
			delete(w.running, e)
			w.mu.Unlock()
			cancel(nil)
		}()
		w.execute(ctx, s, task)
	}()
}

func (w *Worker) execute(ctx context.Context, s *session, task gen.ClaimedTask) {
	h := w.handlers[task.Name]
	if h == nil {
		h = w.other
	}
	if h == nil {
		h = func(context.Context, gen.ClaimedTask, *ending) error {
			return fmt.Errorf("this worker has no handler for task %q", task.Name)
		}
	}
	if task.Timeout != nil {
		timed, cancel := context.WithTimeoutCause(ctx, *task.Timeout, ErrTimeout)
		defer cancel()
		ctx = timed
	}
	ctx, done := w.client.hooks.execute(ctx, func() Execution {
		return Execution{
			Worker: w.config.Name, ID: task.ID, Name: task.Name, Queue: task.Queue, Attempt: task.Attempt, MaxAttempts: task.MaxAttempts,
			Metadata: task.Metadata, Waited: task.ClaimedAt.Sub(task.RunAfter),
		}
	})
	begun := time.Now()
	var ending ending
	trace, err := protect(ctx, h, task, &ending)
	cause := context.Cause(ctx)
	brokenOff := err != nil && (errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrLeaseLost))
	done(ExecutionResult{Err: err, BrokenOff: brokenOff, Took: time.Since(begun)})
	o := outcome{session: s, execution: execution{task.ID, task.LeaseNumber}, result: ending.result, completed: ending.completed}
	switch {
	case err == nil && ending.completed:
		// Written already, unless the handler did not commit: then the task must not stay as it is.
		o.setError(errNotCommitted, nil, "")
	case err == nil:
	case brokenOff:
		// Not the task's fault. It is handed back when the lease is closed, or belongs to somebody else already.
		w.log.Info("task broken off", "task", task.ID, "name", task.Name, "cause", cause, "error", err)
		w.settle(s, o.execution)
		return
	default:
		o.setError(err, cause, trace)
		if o.failed {
			w.log.Info("task failed", "task", task.ID, "name", task.Name, "attempt", task.Attempt, "error", err)
		}
	}
	w.outcomes.add(o)
}

// protect calls a handler and turns a panic into an error with its stack.
func protect(ctx context.Context, h handler, task gen.ClaimedTask, e *ending) (trace string, err error) {
	defer func() {
		if p := recover(); p != nil {
			trace, err = string(debug.Stack()), fmt.Errorf("panic: %v", p)
		}
	}()
	return "", h(ctx, task, e)
}
