package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// Bare SQL is the limit: the fewest tables, indexes and statements that do the work, and none of the guarantees.
const bareSchema = `
create schema bare;
create table bare.plain (id bigint generated always as identity primary key, payload jsonb not null);
create table bare.keyed (key text primary key, payload jsonb not null);
create table bare.task (
	id bigint generated always as identity primary key,
	claimable boolean not null default true,
	state smallint not null default 0,
	run_after timestamptz not null default now(),
	payload jsonb not null
) with (fillfactor = 70);
create index on bare.task (run_after, id) where claimable;
create table bare.held (key text primary key, claimable boolean not null default true, payload jsonb not null) with (fillfactor = 70);
create index on bare.held (key) where claimable;`

const (
	bareChannel   = "bare"
	bareKeyed     = "insert into bare.keyed (key, payload) values ($1, $2) on conflict do nothing"
	bareKeyedMany = "insert into bare.keyed (key, payload) select * from unnest($1::text[], $2::jsonb[]) on conflict do nothing"
	barePlain     = "insert into bare.plain (payload) values ($1)"
	bareLoad      = `insert into bare.task (payload, run_after)
		select p, now() + case when $2 and n % 2 = 0 then interval '1 hour' else interval '0' end from unnest($1::jsonb[]) with ordinality u (p, n)`
	bareNotify = "with task as (insert into bare.task (payload) values ($1)) select pg_notify('" + bareChannel + "', '')"
	bareClaim  = `update bare.task t set claimable = false, state = 1
		from (select id from bare.task where claimable and run_after <= now() order by run_after, id limit $1 for no key update skip locked) c
		where t.id = c.id returning t.id, t.payload`
	bareComplete = "update bare.task set state = 2 where id = any($1)"
)

func bareSystem() system { return bareWith("bare", 1, bareKeyed) }

// bareLoopsSystem takes turns on two connections, each with half of the tasks.
func bareLoopsSystem() system { return bareWith("bare on 2 connections", 2, bareKeyed) }

// bareInsertSystem has no unique index to look at.
func bareInsertSystem() system { return bareWith("bare insert", 1, barePlain) }

func bareWith(name string, loops int, insert string) system {
	return system{
		name: name, install: installBare, tables: named("bare.plain", "bare.keyed", "bare.task"),
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			return &bareQueue{pool: pool, loops: loops, insert: insert}, nil
		},
	}
}

func installBare(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, bareSchema)
	return err
}

type bareQueue struct {
	pool   *pgxpool.Pool
	loops  int
	insert string
}

func barePayload(number int) (key, payload string, err error) {
	o := newOrder(number)
	text, err := json.Marshal(o)
	return o.key(), string(text), err
}

func (q *bareQueue) enqueue(ctx context.Context, number int) (bool, error) {
	key, payload, err := barePayload(number)
	if err != nil {
		return false, err
	}
	args := []any{key, payload}
	if q.insert == barePlain {
		args = args[1:]
	}
	tag, err := q.pool.Exec(ctx, q.insert, args...)
	return tag.RowsAffected() == 1, err
}

func (q *bareQueue) enqueueMany(ctx context.Context, numbers []int) (int, error) {
	keys, payloads := make([]string, len(numbers)), make([]string, len(numbers))
	for i, n := range numbers {
		var err error
		if keys[i], payloads[i], err = barePayload(n); err != nil {
			return 0, err
		}
	}
	tag, err := q.pool.Exec(ctx, bareKeyedMany, keys, payloads)
	return int(tag.RowsAffected()), err
}

func (q *bareQueue) enqueuePlain(ctx context.Context, number int) error {
	_, payload, err := barePayload(number)
	if err != nil {
		return err
	}
	_, err = q.pool.Exec(ctx, bareNotify, payload)
	return err
}

func (q *bareQueue) load(ctx context.Context, tasks int, half bool) error {
	return batches(tasks, func(from, to int) error {
		payloads := make([]string, 0, to-from)
		for n := from; n < to; n++ {
			_, payload, err := barePayload(n)
			if err != nil {
				return err
			}
			payloads = append(payloads, payload)
		}
		_, err := q.pool.Exec(ctx, bareLoad, payloads, half)
		return err
	})
}

func (q *bareQueue) busy(ctx context.Context) (busy bool, err error) {
	err = q.pool.QueryRow(ctx, "select exists (select from bare.task where state < 2)").Scan(&busy)
	return busy, err
}

func (q *bareQueue) count(ctx context.Context) (c counts, err error) {
	err = q.pool.QueryRow(ctx, `select (select count(*) from bare.keyed) + (select count(*) from bare.plain) + count(*) filter (where state < 2),
		count(*) filter (where state = 2) from bare.task`).Scan(&c.pending, &c.settled)
	return c, err
}

func (q *bareQueue) work(ctx context.Context, config workConfig) error {
	group, ctx := errgroup.WithContext(ctx)
	for range q.loops {
		group.Go(func() error {
			return bareLoop(ctx, q.pool, config, config.concurrency/q.loops, bareStatements{bareClaim, bareComplete, time.Second}, pgx.RowToStructByPos[bareTask[int64]])
		})
	}
	return group.Wait()
}

type bareTask[K any] struct {
	Key     K
	Payload []byte
}

type bareStatements struct {
	claim, complete string
	poll            time.Duration
}

// bareLoop claims, handles all at once, completes, and starts over. It waits for a notification when there is nothing.
func bareLoop[K any](ctx context.Context, pool *pgxpool.Pool, config workConfig, most int, sql bareStatements, scan pgx.RowToFunc[bareTask[K]]) error {
	unbroken := context.WithoutCancel(ctx)
	conn, err := pool.Acquire(unbroken)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(unbroken, "listen "+bareChannel); err != nil {
		return err
	}
	for ctx.Err() == nil {
		rows, _ := conn.Query(unbroken, sql.claim, most) // its error comes with the rows
		tasks, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			waiting, cancel := context.WithTimeout(ctx, sql.poll)
			_, err := conn.Conn().WaitForNotification(waiting)
			timedOut := waiting.Err() != nil
			cancel()
			if err != nil && !timedOut {
				return err
			}
			continue
		}
		var handlers errgroup.Group
		keys := make([]K, len(tasks))
		for i, t := range tasks {
			keys[i] = t.Key
			handlers.Go(func() error {
				config.handle()
				return nil
			})
		}
		err = handlers.Wait()
		tag, completeErr := conn.Exec(unbroken, sql.complete, keys)
		if err := errors.Join(err, completeErr); err != nil {
			return err
		}
		if int(tag.RowsAffected()) != len(keys) {
			return errors.New("bare SQL completed not what it claimed")
		}
	}
	return nil
}
