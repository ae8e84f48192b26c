package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	bareHeld      = "insert into bare.held (key, payload) values ($1, $2) on conflict do nothing"
	bareHeldClaim = `update bare.held t set claimable = false
		from (select key from bare.held where claimable limit $1 for no key update skip locked) c
		where t.key = c.key returning t.key, t.payload`
	bareHeldComplete = "delete from bare.held where key = any($1)"
)

// bareHeldSystem frees a key when its task is done, by deleting the row: one table for both.
func bareHeldSystem() system {
	return system{
		name: "bare, keys freed", install: installBare, tables: named("bare.held", "bare.task"),
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			return &bareHeldQueue{bareQueue{pool: pool, loops: 1, insert: bareHeld}}, nil
		},
	}
}

type bareHeldQueue struct{ bareQueue }

func (q *bareHeldQueue) load(ctx context.Context, tasks int, _ bool) error {
	return batches(tasks, func(from, to int) error {
		for n := from; n < to; n++ {
			if _, err := q.enqueue(ctx, -1-n); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *bareHeldQueue) busy(ctx context.Context) (busy bool, err error) {
	err = q.pool.QueryRow(ctx, "select exists (select from bare.held)").Scan(&busy)
	return busy, err
}

func (q *bareHeldQueue) count(ctx context.Context) (counts, error) {
	c := counts{settled: noHistory}
	err := q.pool.QueryRow(ctx, "select count(*) from bare.held").Scan(&c.pending)
	return c, err
}

func (q *bareHeldQueue) work(ctx context.Context, config workConfig) error {
	return bareLoop(ctx, q.pool, config, config.concurrency, bareStatements{bareHeldClaim, bareHeldComplete, 2 * time.Millisecond}, pgx.RowToStructByPos[bareTask[string]])
}
