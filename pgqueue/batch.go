package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// BatchOptions say how a batch is enqueued.
type BatchOptions struct {
	// ContinueOnConflict lets the rest go on when an item is refused; its outcome carries the error. Otherwise the first refusal
	// fails the whole batch, and nothing is written.
	ContinueOnConflict bool
	// NoWait answers ErrRace at once where a key is held by a transaction that is not committed yet.
	NoWait bool
}

// Outcome is what came of one item of a batch: a receipt, or the error with which it was refused.
type Outcome struct {
	Receipt

	Err error
}

// EnqueueMany enqueues many tasks in one call and one transaction, as if one after another, and returns an outcome for each in
// their order. An item whose key an earlier one took is REUSED with that one's task.
func (c *Client) EnqueueMany(ctx context.Context, requests []Request, options BatchOptions) ([]Outcome, error) {
	return c.enqueueMany(ctx, requests, options, func(ctx context.Context, p gen.EnqueueManyParams) ([]gen.Receipt, error) {
		return call(ctx, c, func(db gen.DB) ([]gen.Receipt, error) { return gen.EnqueueMany(ctx, db, p) })
	})
}

// EnqueueManyTx is EnqueueMany in the caller's transaction. A refusal aborts the transaction, unless ContinueOnConflict is set.
func (c *Client) EnqueueManyTx(ctx context.Context, tx pgx.Tx, requests []Request, options BatchOptions) ([]Outcome, error) {
	return c.enqueueMany(ctx, requests, options, func(ctx context.Context, p gen.EnqueueManyParams) ([]gen.Receipt, error) {
		receipts, err := gen.EnqueueMany(ctx, tx, p)
		return receipts, wrap(err)
	})
}

func (c *Client) enqueueMany(ctx context.Context, requests []Request, options BatchOptions,
	send func(context.Context, gen.EnqueueManyParams) ([]gen.Receipt, error),
) (outcomes []Outcome, err error) {
	if len(requests) == 0 {
		return nil, nil
	}
	requests = slices.Clone(requests) // the hook may change them
	ctx, done := c.hooks.enqueueMany(ctx, requests)
	defer func() { done(outcomes, err) }()
	p, err := c.batch(requests, options)
	if err != nil {
		return nil, err
	}
	return outcomesFrom(send(ctx, p))
}

func outcomesFrom(receipts []gen.Receipt, err error) ([]Outcome, error) {
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(receipts))
	for i, r := range receipts {
		outcomes[i].Receipt, outcomes[i].Err = finish(r, nil)
	}
	return outcomes, nil
}

// EnqueueMany enqueues tasks in one call; see Client.EnqueueMany. The first refusal fails the whole batch. It returns a receipt for
// each in their order.
func (t *TaskType[T]) EnqueueMany(ctx context.Context, c *Client, args []T, options ...EnqueueOption) ([]Receipt, error) {
	requests := make([]Request, len(args))
	for i, a := range args {
		var err error
		if requests[i], err = t.Request(a, options...); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	outcomes, err := c.EnqueueMany(ctx, requests, BatchOptions{})
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(outcomes))
	for i, o := range outcomes {
		receipts[i] = o.Receipt
	}
	return receipts, nil
}

// item is a Request as pgqueue.enqueue_many reads it.
type item struct {
	TaskName     string          `json:"task_name"`
	Payload      json.RawMessage `json:"payload,omitempty"`
	Queue        string          `json:"queue,omitempty"`
	Priority     *int            `json:"priority,omitempty"`
	RunAfter     *time.Time      `json:"run_after,omitempty"`
	Delay        span            `json:"delay,omitempty"`
	ActiveKey    string          `json:"active_key,omitempty"`
	WindowKey    string          `json:"window_key,omitempty"`
	WindowLength span            `json:"window_length,omitempty"`
	MaxAttempts  int             `json:"max_attempts,omitempty"`
	Backoff      span            `json:"backoff,omitempty"`
	MaxBackoff   span            `json:"max_backoff,omitempty"`
	Timeout      span            `json:"timeout,omitempty"`
	Lease        span            `json:"lease,omitempty"`
	ResourceKeys []string        `json:"resource_keys,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	Unique       bool            `json:"unique,omitempty"`
}

// span is a duration as an interval's text.
type span time.Duration

func (s span) MarshalJSON() ([]byte, error) {
	return json.Marshal(gen.Interval(time.Duration(s)))
}

func (c *Client) batch(requests []Request, options BatchOptions) (gen.EnqueueManyParams, error) {
	items := make([]item, len(requests))
	for i, r := range requests {
		if err := r.check(); err != nil {
			return gen.EnqueueManyParams{}, fmt.Errorf("item %d: %w", i+1, err)
		}
		if r.NoWait {
			return gen.EnqueueManyParams{}, fmt.Errorf("item %d: %w", i+1, errNoWait)
		}
		items[i] = item{
			TaskName: r.TaskName, Payload: r.Payload, Queue: r.Queue, Priority: r.Priority, RunAfter: start(r.RunAfter), Delay: span(r.Delay),
			ActiveKey: r.ActiveKey, WindowKey: r.WindowKey, WindowLength: span(r.Window), MaxAttempts: r.MaxAttempts,
			Backoff: span(r.Backoff), MaxBackoff: span(r.MaxBackoff), Timeout: span(r.Timeout), Lease: span(r.Lease),
			ResourceKeys: r.ResourceKeys, Metadata: r.Metadata, Unique: r.Unique,
		}
	}
	text, err := json.Marshal(items)
	if err != nil {
		return gen.EnqueueManyParams{}, fmt.Errorf("pgqueue: encode batch: %w", err)
	}
	p := gen.EnqueueManyParams{Items: text, Namespace: &c.namespace, ContinueOnConflict: &options.ContinueOnConflict}
	if options.NoWait {
		wait := false
		p.Wait = &wait
	}
	return p, nil
}

var errNoWait = errors.New("pgqueue: NoWait is an option of the whole batch")
