package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// TaskOptions are the defaults and the keys of a task type whose arguments are a T. The zero value is right for a type that is
// not unique.
type TaskOptions[T any] struct {
	// Queue defaults to "default".
	Queue string
	// Priority from -100 to 100, higher first. Defaults to 0.
	Priority int
	// MaxAttempts defaults to 10.
	MaxAttempts int
	// Backoff is the delay before the second attempt, doubled with each further one up to MaxBackoff. Default to 5 s and 1 h.
	Backoff, MaxBackoff time.Duration
	// Timeout ends the context of an attempt. Defaults to none.
	Timeout time.Duration
	// Lease is the least time that a silent worker keeps a task. Defaults to the worker's.
	Lease time.Duration

	// UniqueWhileActive makes the active key: while a task of it waits or runs, an enqueue returns that task.
	UniqueWhileActive func(args T) string
	// UniquePayload derives the active key from name, queue and payload. It excludes UniqueWhileActive.
	UniquePayload bool
	// UniqueRequest makes the window key: for Window after the first acceptance, the same request returns the same task, and
	// another request with the key is refused with ErrConflict.
	UniqueRequest func(args T) string
	Window        time.Duration
}

// TaskType is a kind of task with arguments of type T, which travel as JSON.
type TaskType[T any] struct {
	name    string
	options TaskOptions[T]
}

// Define makes a task type. It panics on options that contradict each other: a type is defined once, at program start.
func Define[T any](name string, options TaskOptions[T]) *TaskType[T] {
	switch {
	case name == "":
		panic("pgqueue: Define: the name is empty")
	case options.UniquePayload && options.UniqueWhileActive != nil:
		panic(fmt.Sprintf("pgqueue: Define(%q): UniquePayload and UniqueWhileActive exclude each other", name))
	case (options.UniqueRequest != nil) != (options.Window > 0):
		panic(fmt.Sprintf("pgqueue: Define(%q): UniqueRequest and a positive Window come together", name))
	}
	return &TaskType[T]{name: name, options: options}
}

// Name returns the name of the type, as it stands in the database.
func (t *TaskType[T]) Name() string { return t.name }

// Enqueue enqueues a task in a transaction of its own.
func (t *TaskType[T]) Enqueue(ctx context.Context, c *Client, args T, options ...EnqueueOption) (Receipt, error) {
	r, err := t.Request(args, options...)
	if err != nil {
		return Receipt{}, err
	}
	return c.Enqueue(ctx, r)
}

// EnqueueTx enqueues a task in the caller's transaction: both commit or neither. A refusal leaves the transaction usable.
func (t *TaskType[T]) EnqueueTx(ctx context.Context, c *Client, tx pgx.Tx, args T, options ...EnqueueOption) (Receipt, error) {
	r, err := t.Request(args, options...)
	if err != nil {
		return Receipt{}, err
	}
	return c.EnqueueTx(ctx, tx, r)
}

// Request returns what Enqueue sends.
func (t *TaskType[T]) Request(args T, options ...EnqueueOption) (Request, error) {
	payload, err := json.Marshal(args)
	if err != nil {
		return Request{}, fmt.Errorf("pgqueue: arguments of task %s: %w", t.name, err)
	}
	o := &t.options
	r := Request{
		TaskName: t.name, Payload: payload, Queue: o.Queue, Priority: optional(o.Priority), MaxAttempts: o.MaxAttempts,
		Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, Timeout: o.Timeout, Lease: o.Lease, Unique: o.UniquePayload,
	}
	if o.UniqueWhileActive != nil {
		if r.ActiveKey = o.UniqueWhileActive(args); r.ActiveKey == "" {
			return Request{}, emptyKey(t.name, "active_key")
		}
	}
	if o.UniqueRequest != nil {
		if r.WindowKey = o.UniqueRequest(args); r.WindowKey == "" {
			return Request{}, emptyKey(t.name, "window_key")
		}
		r.Window = o.Window
	}
	for _, option := range options {
		option(&r)
	}
	return r, nil
}

func emptyKey(name, what string) error {
	return &Error{Code: "PQ006", Message: fmt.Sprintf("invalid_key: the %s that task type %s made is empty", what, name), err: ErrInvalidKey}
}

// Definition is a task type of any arguments, for Client.Register.
type Definition interface {
	declaration() gen.DeclareTaskParams
}

func (t *TaskType[T]) declaration() gen.DeclareTaskParams {
	o := &t.options
	p := gen.DeclareTaskParams{
		TaskName: t.name, Queue: optional(o.Queue), Priority: optional(o.Priority), MaxAttempts: optional(o.MaxAttempts),
		Backoff: optional(o.Backoff), MaxBackoff: optional(o.MaxBackoff), Timeout: optional(o.Timeout), Lease: optional(o.Lease),
		WindowLength: optional(o.Window),
	}
	yes, whole := true, "$"
	if o.UniqueWhileActive != nil {
		p.ActiveKeyRequired = &yes
	}
	if o.UniquePayload {
		p.ActiveKeySelector = &whole
	}
	if o.UniqueRequest != nil {
		p.WindowKeyRequired = &yes
	}
	return p
}

// Register stores what the database can know of the types: their defaults, and that their keys are required. From then on an
// enqueue from SQL or from another language that leaves a key out is refused too. Registering a type again replaces it.
func (c *Client) Register(ctx context.Context, types ...Definition) error {
	for _, t := range types {
		p := t.declaration()
		p.Namespace = &c.namespace
		_, err := call(ctx, c, func(db gen.DB) (struct{}, error) { return struct{}{}, gen.DeclareTask(ctx, db, p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// EnqueueOption changes one enqueue of a task type.
type EnqueueOption func(*Request)

// WithQueue puts the task into another queue than its type's.
func WithQueue(queue string) EnqueueOption { return func(r *Request) { r.Queue = queue } }

// WithPriority gives the task another priority than its type's, from -100 to 100, higher first.
func WithPriority(priority int) EnqueueOption { return func(r *Request) { r.Priority = &priority } }

// WithRunAfter is the earliest start of the task.
func WithRunAfter(t time.Time) EnqueueOption { return func(r *Request) { r.RunAfter = t } }

// WithDelay is the earliest start of the task, from the server's now on.
func WithDelay(d time.Duration) EnqueueOption { return func(r *Request) { r.Delay = d } }

// WithActiveKey gives the active key of a type that makes none.
func WithActiveKey(key string) EnqueueOption { return func(r *Request) { r.ActiveKey = key } }

// WithWindowKey gives the window key of a type that makes none.
func WithWindowKey(key string, window time.Duration) EnqueueOption {
	return func(r *Request) { r.WindowKey, r.Window = key, window }
}

// WithMaxAttempts gives the task another number of attempts than its type's.
func WithMaxAttempts(n int) EnqueueOption { return func(r *Request) { r.MaxAttempts = n } }

// WithMetadata stores a JSON value with the task. It is part of the request that a window key stands for.
func WithMetadata(metadata json.RawMessage) EnqueueOption {
	return func(r *Request) { r.Metadata = metadata }
}

// WithNoWait answers ErrRace at once where the key is held by a transaction that is not committed yet.
func WithNoWait() EnqueueOption { return func(r *Request) { r.NoWait = true } }
