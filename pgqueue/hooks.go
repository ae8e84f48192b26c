package pgqueue

import (
	"context"
	"encoding/json"
	"time"
)

// Hooks let tracing and metrics look on. Nil members are left out. They are called synchronously, so they must be quick, and from
// many goroutines at once. Package github.com/pgqueue/pgqueue/pgqueueotel has an implementation for OpenTelemetry.
type Hooks struct {
	// Enqueue is called before a single enqueue, and may change the request's metadata; see Request.SetTrace. What it returns is
	// called with the outcome.
	Enqueue func(ctx context.Context, r *Request) (context.Context, func(Receipt, error))
	// EnqueueMany is the same for a batch.
	EnqueueMany func(ctx context.Context, requests []Request) (context.Context, func([]Outcome, error))
	// Execute is called before a handler; the handler runs with the context that it returns. What it returns is called when the
	// handler has ended.
	Execute func(ctx context.Context, e Execution) (context.Context, func(ExecutionResult))
	// Claimed is called after each claim with the number of tasks that it gave.
	Claimed func(ctx context.Context, worker string, tasks int, took time.Duration, err error)
	// Written is called when the outcomes of executions are in the database.
	Written func(ctx context.Context, worker string, outcomes int, took time.Duration, err error)
}

// Execution is what Hooks.Execute knows of a task that is about to run.
type Execution struct {
	Worker               string
	ID                   TaskID
	Name, Queue          string
	Attempt, MaxAttempts int
	Metadata             json.RawMessage
	// Waited is the time from when the task was due to its claim, both by the server's clock.
	Waited time.Duration
}

// ExecutionResult is what became of it. A nil Err is a success; BrokenOff says that the outcome is not the task's own: the worker
// stopped or lost its lease.
type ExecutionResult struct {
	Err       error
	BrokenOff bool
	Took      time.Duration
}

// SetTrace puts a trace context (traceparent, tracestate) into the metadata, where it is absent or an object. These members are no
// part of the request that a window key stands for: a repeated request is another span.
func (r *Request) SetTrace(members map[string]string) {
	if len(members) == 0 {
		return
	}
	metadata := map[string]json.RawMessage{}
	if r.Metadata != nil && json.Unmarshal(r.Metadata, &metadata) != nil || metadata == nil {
		return // not an object: there is no place for a trace in it
	}
	for name, value := range members {
		text, err := json.Marshal(value)
		if err != nil {
			return // a string always marshals
		}
		metadata[name] = text
	}
	if text, err := json.Marshal(metadata); err == nil {
		r.Metadata = text
	}
}

func (h *Hooks) enqueue(ctx context.Context, r *Request) (context.Context, func(Receipt, error)) {
	if h.Enqueue == nil {
		return ctx, func(Receipt, error) {}
	}
	return h.Enqueue(ctx, r)
}

func (h *Hooks) enqueueMany(ctx context.Context, requests []Request) (context.Context, func([]Outcome, error)) {
	if h.EnqueueMany == nil {
		return ctx, func([]Outcome, error) {}
	}
	return h.EnqueueMany(ctx, requests)
}

func (h *Hooks) execute(ctx context.Context, e func() Execution) (context.Context, func(ExecutionResult)) {
	if h.Execute == nil {
		return ctx, func(ExecutionResult) {}
	}
	return h.Execute(ctx, e())
}
