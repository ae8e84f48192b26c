package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// declare declares a type in the namespace.
func (e *env) declare(t testing.TB, p gen.DeclareTaskParams) {
	t.Helper()
	p.Namespace = &e.ns
	if err := gen.DeclareTask(t.Context(), e.pool, p); err != nil {
		t.Fatalf("declare_task: %v", err)
	}
}

// typed is a request of a declared type.
func (e *env) typed(name, payload string) request {
	return request{TaskName: name, Payload: json.RawMessage(payload), Namespace: &e.ns}
}

// way is a way to enqueue one task. Refusals come as error codes, whether raised or returned.
type way struct {
	name string
	call func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error)
}

// ways are all there are: the functions of the database, as SQL and through the client.
func ways() []way {
	batch := func(more string) func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
		return func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			text, err := json.Marshal(batchItem{request: r})
			if err != nil {
				return gen.Receipt{}, err
			}
			all, err := gen.EnqueueMany(ctx, pool, gen.EnqueueManyParams{Items: fmt.Appendf(nil, "[%s%s]", text, more), Namespace: r.Namespace})
			if err != nil {
				return gen.Receipt{}, err
			}
			return all[0], nil
		}
	}
	client := func(ctx context.Context, pool *pgxpool.Pool, r request, f func(c *pgqueue.Client, r pgqueue.Request) (pgqueue.Receipt, error)) (gen.Receipt, error) {
		c, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Namespace: *r.Namespace})
		if err != nil {
			return gen.Receipt{}, err
		}
		asked := pgqueue.Request{TaskName: r.TaskName, Payload: r.Payload}
		if r.ActiveKey != nil {
			asked.ActiveKey = *r.ActiveKey
		}
		if r.WindowKey != nil {
			asked.WindowKey = *r.WindowKey
		}
		if r.WindowLength != nil {
			asked.Window = *r.WindowLength
		}
		got, err := f(c, asked)
		if err != nil {
			return gen.Receipt{}, err
		}
		return gen.Receipt{TaskID: &got.TaskID, Disposition: got.Disposition, DuplicateMatch: got.DuplicateMatch}, nil
	}
	return []way{
		{"enqueue", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return gen.Enqueue(ctx, pool, gen.EnqueueParams(r))
		}},
		{"try_enqueue", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return gen.TryEnqueue(ctx, pool, gen.TryEnqueueParams(r))
		}},
		{"enqueue_unique", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return gen.EnqueueUnique(ctx, pool, r)
		}},
		{"try_enqueue_unique", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return gen.TryEnqueueUnique(ctx, pool, gen.TryEnqueueUniqueParams(r))
		}},
		{"enqueue_many", batch("")},
		{"enqueue_many with others", batch(`, {"task_name": "plain"}, {"task_name": "plain", "window_key": "w", "window_length": "1 hour"}`)},
		{"client", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return client(ctx, pool, r, func(c *pgqueue.Client, r pgqueue.Request) (pgqueue.Receipt, error) { return c.Enqueue(ctx, r) })
		}},
		{"client in a transaction", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return client(ctx, pool, r, func(c *pgqueue.Client, r pgqueue.Request) (got pgqueue.Receipt, err error) {
				err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					got, err = c.EnqueueTx(ctx, tx, r)
					return err
				})
				return got, err
			})
		}},
		{"client's batch", func(ctx context.Context, pool *pgxpool.Pool, r request) (gen.Receipt, error) {
			return client(ctx, pool, r, func(c *pgqueue.Client, r pgqueue.Request) (pgqueue.Receipt, error) {
				all, err := c.EnqueueMany(ctx, []pgqueue.Request{r}, pgqueue.BatchOptions{})
				if err != nil {
					return pgqueue.Receipt{}, err
				}
				return all[0].Receipt, all[0].Err
			})
		}},
	}
}
