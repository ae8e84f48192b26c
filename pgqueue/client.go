package pgqueue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
)

const serverState = "select pg_catalog.current_setting('default_transaction_isolation'), pg_catalog.pg_is_in_recovery()" //sql:connection

// schemaNeeded is the oldest schema version that has all functions which this package calls.
const schemaNeeded = 2

// Config says how a client works. The zero value is right for most programs.
type Config struct {
	// Namespace that all tasks of this client live in. Defaults to "default".
	Namespace string
	// Hooks for tracing and metrics, of the client and of its workers.
	Hooks Hooks
	// Logger for what has no caller to return to. Defaults to slog.Default().
	Logger *slog.Logger
}

// Client enqueues tasks and looks at them. It is safe for concurrent use and keeps no connection of its own.
type Client struct {
	pool      *pgxpool.Pool
	namespace string
	log       *slog.Logger
	hooks     Hooks
	// plain tells that the sessions of the pool are READ COMMITTED by default, so that single statements need no transaction
	// around them to be that.
	plain bool
}

// NewClient makes a client on a pool, which stays the caller's to close. It looks at the server once, and refuses a standby
// (ErrStandby), and a schema that is missing or older than this package (ErrSchema).
func NewClient(ctx context.Context, pool *pgxpool.Pool, config Config) (*Client, error) {
	c := &Client{pool: pool, namespace: config.Namespace, log: config.Logger, hooks: config.Hooks}
	if c.namespace == "" {
		c.namespace = "default"
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	var isolation string
	var standby bool
	err := pool.QueryRow(ctx, serverState).Scan(&isolation, &standby)
	if err != nil {
		return nil, fmt.Errorf("pgqueue: look at the server: %w", err)
	}
	if standby {
		return nil, ErrStandby
	}
	c.plain = isolation == "read committed" || isolation == "read uncommitted"
	version, err := gen.SchemaVersion(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if version < schemaNeeded {
		return nil, fmt.Errorf("%w: the database has schema version %d, this package needs %d or newer: run pgqueue migrate", ErrSchema, version, schemaNeeded)
	}
	return c, nil
}

// Namespace returns the namespace of the client's tasks.
func (c *Client) Namespace() string { return c.namespace }

// call runs one statement at READ COMMITTED, whatever the session's default says.
func call[T any](ctx context.Context, c *Client, f func(db gen.DB) (T, error)) (result T, err error) {
	if c.plain {
		result, err = f(c.pool)
		return result, wrap(err)
	}
	err = pgx.BeginTxFunc(ctx, c.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		result, err = f(tx)
		return err
	})
	return result, wrap(err)
}

// Task returns a task by its id, or ErrUnknownTask.
func (c *Client) Task(ctx context.Context, id TaskID) (*TaskInfo, error) {
	found, err := call(ctx, c, func(db gen.DB) ([]gen.TaskView, error) {
		return gen.GetTask(ctx, db, gen.GetTaskParams{TaskID: id, Namespace: &c.namespace})
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &Error{Code: codeUnknownTask, Message: fmt.Sprintf("unknown task: there is no task %s in namespace %q", id, c.namespace), err: ErrUnknownTask}
	}
	return &found[0], nil
}

// Attempts returns the attempts of a task that did not succeed, oldest first.
func (c *Client) Attempts(ctx context.Context, id TaskID) ([]Attempt, error) {
	return call(ctx, c, func(db gen.DB) ([]Attempt, error) {
		return gen.ListAttempts(ctx, db, gen.ListAttemptsParams{TaskID: id, Namespace: &c.namespace})
	})
}

// Retry orders a FAILED, LOST or DISCARDED task to run again; see pgqueue.retry. The answer names the newer task that holds the
// key meanwhile, if there is one. Errors: ErrUnknownTask, ErrInvalidState.
func (c *Client) Retry(ctx context.Context, id TaskID) (Retried, error) {
	return call(ctx, c, func(db gen.DB) (Retried, error) {
		return gen.Retry(ctx, db, gen.RetryParams{TaskID: id, Namespace: &c.namespace})
	})
}

// Discard closes a READY, FAILED or LOST task. Errors: ErrUnknownTask, ErrInvalidState.
func (c *Client) Discard(ctx context.Context, id TaskID) error {
	_, err := call(ctx, c, func(db gen.DB) (struct{}, error) {
		return struct{}{}, gen.Discard(ctx, db, gen.DiscardParams{TaskID: id, Namespace: &c.namespace})
	})
	return err
}

// Cancel asks a RUNNING task to stop, its handler's context is cancelled at the worker's next renewal; a READY task is DISCARDED
// at once. It returns the status after the call. Errors: ErrUnknownTask, ErrInvalidState.
func (c *Client) Cancel(ctx context.Context, id TaskID) (TaskStatus, error) {
	return call(ctx, c, func(db gen.DB) (TaskStatus, error) {
		return gen.Cancel(ctx, db, gen.CancelParams{TaskID: id, Namespace: &c.namespace})
	})
}

// Stats counts tasks by queue and state.
func (c *Client) Stats(ctx context.Context) ([]QueueStat, error) {
	return call(ctx, c, func(db gen.DB) ([]QueueStat, error) {
		return gen.QueueStats(ctx, db, gen.QueueStatsParams{Namespace: &c.namespace})
	})
}

// Reap takes back the tasks of workers whose lease has expired; see pgqueue.reap_lost. Every worker does it by itself.
func (c *Client) Reap(ctx context.Context) (Reaped, error) {
	return call(ctx, c, func(db gen.DB) (Reaped, error) {
		return gen.ReapLost(ctx, db, gen.ReapLostParams{Namespace: &c.namespace})
	})
}
