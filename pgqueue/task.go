package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// Task is a task as its handler gets it.
type Task[T any] struct {
	// Args are the decoded payload.
	Args T

	ID       TaskID
	Name     string
	Queue    string
	Payload  json.RawMessage
	Metadata json.RawMessage
	// ResourceKeys as they were enqueued.
	ResourceKeys []string
	Priority     int
	// Attempt counts from 1 to MaxAttempts.
	Attempt, MaxAttempts int
	// LeaseNumber grows with every execution of the task: a fencing token for what the handler writes elsewhere.
	LeaseNumber int
	CreatedAt   time.Time

	client *Client
	ending *ending
}

// ending is what a handler leaves besides its error.
type ending struct {
	result    json.RawMessage
	completed bool // CompleteTx was called
}

// SetResult stores a value with the task when the handler returns nil.
func (t *Task[T]) SetResult(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("pgqueue: result of task %s: %w", t.ID, err)
	}
	if err := checkJSON("result", text); err != nil {
		return err
	}
	t.ending.result = text
	return nil
}

// SetProgress stores how far the task is: any JSON value, for people to see. It writes the task's row, so it is not for a tight
// loop. It returns ErrLeaseLost when the task is no longer this execution's.
func (t *Task[T]) SetProgress(ctx context.Context, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("pgqueue: progress of task %s: %w", t.ID, err)
	}
	if err := checkJSON("progress", text); err != nil {
		return err
	}
	written, err := call(ctx, t.client, func(db gen.DB) (gen.WriteResult, error) {
		return gen.SetProgress(ctx, db, gen.SetProgressParams{TaskID: t.ID, LeaseNumber: t.LeaseNumber, Progress: text, Namespace: &t.client.namespace})
	})
	if err == nil && written == gen.WriteResultLeaseLost {
		err = ErrLeaseLost
	}
	return err
}

// CompleteTx makes the task SUCCESSFUL in the handler's own transaction, with the result of SetResult: what the handler writes there
// and the end of the task commit together or not at all. The handler commits, and returns nil. It returns ErrLeaseLost when the task
// is no longer this execution's; the handler then rolls back. A handler that returns nil without having committed has failed.
func (t *Task[T]) CompleteTx(ctx context.Context, tx pgx.Tx) error {
	written, err := gen.Complete(ctx, tx, gen.CompleteParams{
		TaskID: t.ID, LeaseNumber: t.LeaseNumber, Result: t.ending.result, Namespace: &t.client.namespace,
	})
	switch {
	case err != nil:
		return wrap(err)
	case written == gen.WriteResultLeaseLost:
		return ErrLeaseLost
	}
	t.ending.completed = true
	return nil
}

var errNotCommitted = errors.New("the handler called CompleteTx and did not commit its transaction")

// Causes of a handler's context, for context.Cause.
var (
	// ErrLeaseLost: the worker could not renew its lease in time; the task may already run elsewhere.
	ErrLeaseLost = errors.New("pgqueue: the lease of the task is lost")
	// ErrCancelled: an operator asked the task to stop.
	ErrCancelled = errors.New("pgqueue: the task was asked to stop")
	// ErrShutdown: the worker stops and could not wait longer; the task goes back to the queue.
	ErrShutdown = errors.New("pgqueue: the worker stops")
	// ErrTimeout: the attempt ran longer than its type allows.
	ErrTimeout = errors.New("pgqueue: the attempt timed out")
)

type snooze struct{ delay time.Duration }

func (s snooze) Error() string { return fmt.Sprintf("snooze for %s", s.delay) }

// Snooze is an error that a handler returns to run again later, without using up an attempt.
func Snooze(delay time.Duration) error { return snooze{max(delay, 0)} }

type discard struct{ err error }

func (d discard) Error() string { return "discard: " + d.err.Error() }
func (d discard) Unwrap() error { return d.err }

// Discard is an error that a handler returns to end the task for good, although attempts are left.
func Discard(reason error) error { return discard{reason} }

type retryAfter struct {
	err   error
	delay time.Duration
}

func (r retryAfter) Error() string { return r.err.Error() }
func (r retryAfter) Unwrap() error { return r.err }

// RetryAfter is an error that a handler returns to fail with a delay of its own in place of the backoff.
func RetryAfter(delay time.Duration, err error) error { return retryAfter{err, max(delay, 0)} }

// handler runs a claimed task.
type handler func(ctx context.Context, task gen.ClaimedTask, e *ending) error

// Handle sets the handler of a task type. It must be called before Run.
//
// The handler's context ends when the attempt times out, an operator cancels the task, the lease is lost, or the worker cannot
// wait longer at its end; context.Cause tells which. An error, or a panic, ends the attempt as failed: see Snooze, Discard and
// RetryAfter.
func Handle[T any](w *Worker, t *TaskType[T], f func(ctx context.Context, task *Task[T]) error) {
	w.handle(t.name, typed(w.client, f))
}

// HandleOther sets the handler for tasks of all names that have none of their own.
func HandleOther(w *Worker, f func(ctx context.Context, task *Task[json.RawMessage]) error) {
	w.other = typed(w.client, f)
}

func typed[T any](client *Client, f func(ctx context.Context, task *Task[T]) error) handler {
	return func(ctx context.Context, c gen.ClaimedTask, e *ending) error {
		task := &Task[T]{
			ID: c.ID, Name: c.Name, Queue: c.Queue, Payload: c.Payload, Metadata: c.Metadata, ResourceKeys: c.ResourceKeys,
			Priority: c.Priority, Attempt: c.Attempt, MaxAttempts: c.MaxAttempts, LeaseNumber: c.LeaseNumber, CreatedAt: c.CreatedAt,
			client: client, ending: e,
		}
		if err := json.Unmarshal(c.Payload, &task.Args); err != nil {
			return fmt.Errorf("decode payload: %w", err)
		}
		return f(ctx, task)
	}
}
