package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// Request is an enqueue without a Go type behind it. Zero values take the defaults of the task's type in the database, or of
// the queue.
type Request struct {
	TaskName string
	// Payload is any JSON value. Defaults to null.
	Payload json.RawMessage
	// Unique derives the active key from name, queue and payload when neither key is given.
	Unique bool
	// ActiveKey is unique while a task of it is READY or RUNNING: 1 to 512 bytes of UTF-8 without control characters.
	ActiveKey string
	// WindowKey stands for this very request for Window, from the first acceptance on.
	WindowKey string
	Window    time.Duration

	// Queue defaults to "default".
	Queue string
	// Priority from -100 to 100, higher first. Nil takes 0.
	Priority *int
	// RunAfter is the earliest start, Delay the same from the server's now on. At most one of them.
	RunAfter time.Time
	Delay    time.Duration

	// MaxAttempts defaults to 10, Backoff to 5 s (doubled with each attempt), MaxBackoff to 1 h, Timeout of an attempt to none.
	MaxAttempts                  int
	Backoff, MaxBackoff, Timeout time.Duration
	// Lease is the least time that a silent worker keeps this task. Defaults to the worker's.
	Lease time.Duration

	ResourceKeys []string
	Metadata     json.RawMessage
	// NoWait answers ErrRace at once where the key is held by a transaction that is not committed yet.
	NoWait bool
}

// Enqueue enqueues one task in a transaction of its own.
func (c *Client) Enqueue(ctx context.Context, r Request) (Receipt, error) {
	ctx, done := c.hooks.enqueue(ctx, &r)
	found, err := call(ctx, c, func(db gen.DB) (gen.Receipt, error) { return c.try(ctx, db, r) })
	receipt, err := finish(found, err)
	done(receipt, err)
	return receipt, err
}

// EnqueueTx enqueues one task in the caller's transaction: both commit or neither. A refusal, ErrRace too, leaves the transaction
// usable.
func (c *Client) EnqueueTx(ctx context.Context, tx pgx.Tx, r Request) (Receipt, error) {
	ctx, done := c.hooks.enqueue(ctx, &r)
	found, err := c.try(ctx, tx, r)
	if err == nil && found.ErrorCode != nil && *found.ErrorCode == codeRace {
		if fresh := c.freshRead(ctx, r.TaskName, found); fresh != nil {
			found = *fresh
		}
	}
	receipt, err := finish(found, wrap(err))
	done(receipt, err)
	return receipt, err
}

func finish(g gen.Receipt, err error) (Receipt, error) {
	if err == nil {
		err = refusal(g)
	}
	if err != nil {
		return Receipt{}, err
	}
	return receiptFrom(g), nil
}

// try always calls the form that reports refusals as values, so that they do not abort the caller's transaction.
func (c *Client) try(ctx context.Context, db gen.DB, r Request) (gen.Receipt, error) {
	if err := r.check(); err != nil {
		return gen.Receipt{}, err
	}
	p := gen.TryEnqueueParams{
		TaskName: r.TaskName, Payload: r.Payload, Queue: optional(r.Queue), Priority: r.Priority,
		RunAfter: start(r.RunAfter), Delay: optional(r.Delay),
		ActiveKey: optional(r.ActiveKey), WindowKey: optional(r.WindowKey), WindowLength: optional(r.Window),
		MaxAttempts: optional(r.MaxAttempts), Backoff: optional(r.Backoff), MaxBackoff: optional(r.MaxBackoff),
		Timeout: optional(r.Timeout), Lease: optional(r.Lease),
		ResourceKeys: r.ResourceKeys, Metadata: r.Metadata, Namespace: &c.namespace,
	}
	if r.NoWait {
		wait := false
		p.Wait = &wait
	}
	if r.Unique {
		return gen.TryEnqueueUnique(ctx, db, gen.TryEnqueueUniqueParams(p))
	}
	return gen.TryEnqueue(ctx, db, p)
}

// check finds what would not reach the database's own checks: text that PostgreSQL cannot take aborts the transaction before any
// function sees it.
func (r Request) check() error {
	for _, t := range []struct{ what, text string }{
		{"active_key", r.ActiveKey}, {"window_key", r.WindowKey},
	} {
		if !utf8.ValidString(t.text) {
			return &Error{Code: "PQ006", Message: fmt.Sprintf("invalid_key: %s is not valid UTF-8: %q", t.what, t.text), err: ErrInvalidKey}
		}
		if hasNUL(t.text) {
			return &Error{Code: "PQ006", Message: fmt.Sprintf("invalid_key: %s has a control character: %q", t.what, t.text), err: ErrInvalidKey}
		}
	}
	for _, t := range []struct{ what, text string }{{"task_name", r.TaskName}, {"queue", r.Queue}} {
		if !utf8.ValidString(t.text) || hasNUL(t.text) {
			return invalidArgument("%s is not valid text: %q", t.what, t.text)
		}
	}
	for _, k := range r.ResourceKeys {
		if !utf8.ValidString(k) || hasNUL(k) {
			return invalidArgument("resource key is not valid text: %q", k)
		}
	}
	if err := r.checkNumbers(); err != nil {
		return err
	}
	if err := checkJSON("payload", r.Payload); err != nil {
		return err
	}
	return checkJSON("metadata", r.Metadata)
}

// checkNumbers finds what would be cut off or wrapped around on its way to the database.
func (r Request) checkNumbers() error {
	if r.Window%time.Microsecond != 0 {
		return &Error{Code: "PQ007", Message: fmt.Sprintf("invalid_window: window_length is %s, it must be in whole milliseconds", r.Window), err: ErrInvalidWindow}
	}
	for _, d := range []struct {
		what   string
		length time.Duration
	}{{"backoff", r.Backoff}, {"max_backoff", r.MaxBackoff}, {"timeout", r.Timeout}, {"lease", r.Lease}} {
		if d.length%time.Microsecond != 0 {
			return invalidArgument("%s is %s, it must be in whole milliseconds", d.what, d.length)
		}
	}
	if year := r.RunAfter.UTC().Year(); year < 1 || year > 9999 {
		return invalidArgument("run_after is in the year %d, it must be from 1 to 9999", year)
	}
	if r.Priority != nil && int64(*r.Priority) != int64(int32(*r.Priority)) {
		return invalidArgument("priority is %d, it must be from -100 to 100", *r.Priority)
	}
	if int64(r.MaxAttempts) != int64(int32(r.MaxAttempts)) {
		return invalidArgument("max_attempts is %d, it must be from 1 to 10000", r.MaxAttempts)
	}
	return nil
}

func invalidArgument(format string, args ...any) error {
	return &Error{Code: "22023", Message: fmt.Sprintf(format, args...), err: ErrInvalidArgument}
}

// start cuts an instant to microseconds, which is what the database keeps. In the text of a batch the server would round it, and a
// window key would stand for another request than in a call of its own.
func start(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
