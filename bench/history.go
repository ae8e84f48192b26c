package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// history is a database with many rows of the past.
type history struct {
	system system
	label  string
	rows   int
	fill   func(ctx context.Context, i *instance, rows int) error
}

func (e *env) fill(ctx context.Context, h history) error {
	i, err := e.instance(ctx, h.system, h.label)
	if err != nil || i.filled {
		return err
	}
	if err := h.fill(ctx, i, h.rows); err != nil {
		return fmt.Errorf("make %d rows of history: %w", h.rows, err)
	}
	i.filled = true
	return i.vacuum(ctx)
}

// fillPgqueue settles one task that has both keys, and multiplies its rows.
func fillPgqueue(ctx context.Context, i *instance, rows int) error {
	pool, q, err := i.connect(ctx, workerConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := q.(*pgqueueQueue).client
	r, err := plainOrder.Request(newOrder(0), pgqueue.WithActiveKey("history:0"), pgqueue.WithWindowKey("history:0", 24*time.Hour))
	if err != nil {
		return err
	}
	if _, err := client.Enqueue(ctx, r); err != nil {
		return err
	}
	working, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := q.work(working, workConfig{1, stop}); err != nil {
		return err
	}
	const key = "sha256(convert_to('history:' || n, 'UTF8'))"
	id := fmt.Sprintf(`(lpad(to_hex((extract(epoch from now()) * 1000)::bigint - %d + n), 12, '0') || '7' || substr(md5(n::text), 1, 3)
		|| '8' || substr(md5(n::text), 4, 15))::uuid`, rows)
	return i.admin(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return errors.Join(
			multiply(ctx, conn, "task", rows, "n", map[string]string{
				"id": id, "lock_key": key, "active_key": "'history:' || n", "lease_id": "md5((n / 1000)::text)::uuid",
			}),
			multiply(ctx, conn, "unique_window", rows, key, map[string]string{
				"key": key, "task_id": id, "window_key": "'history:' || n", "expires_at": "expires_at + n * interval '1 millisecond'",
			}),
			execute(ctx, conn, fmt.Sprintf(`insert into pgqueue.unique_lock (namespace, key, task_id)
				select 'default', %s, %s from generate_series(1, %d) n order by %[1]s`, key, id, rows)),
		)
	})
}

// multiply copies the only row of a table, with other values for some of its columns.
func multiply(ctx context.Context, conn *pgx.Conn, table string, rows int, order string, values map[string]string) error {
	found, _ := conn.Query(ctx, `select attname::text from pg_attribute
		where attrelid = ('pgqueue.' || $1)::regclass and attnum > 0 and not attisdropped order by attnum`, table) // its error comes with the rows
	columns, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return err
	}
	list := make([]string, len(columns))
	for c, column := range columns {
		list[c] = column
		if value := values[column]; value != "" {
			list[c] = value
		}
	}
	return execute(ctx, conn, fmt.Sprintf("insert into pgqueue.%[1]s (%[2]s) select %[3]s from (select * from pgqueue.%[1]s limit 1) t, generate_series(1, %[4]d) n order by %[5]s",
		table, strings.Join(columns, ", "), strings.Join(list, ", "), rows, order))
}

func fillBare(ctx context.Context, i *instance, rows int) error {
	_, payload, err := barePayload(0)
	if err != nil {
		return err
	}
	return i.admin(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, keyed := conn.Exec(ctx, `insert into bare.keyed (key, payload) select 'history:' || n, $2 from generate_series(1, $1::int) n
			order by 1`, rows, payload)
		_, tasks := conn.Exec(ctx, `insert into bare.task (claimable, state, payload) select false, 2, $2 from generate_series(1, $1::int) n`, rows, payload)
		return errors.Join(keyed, tasks)
	})
}

func execute(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, "set work_mem = '256MB'; "+sql)
	return err
}

// enqueueOnHistory enqueues new keys, right after a checkpoint if cold.
func (e *env) enqueueOnHistory(ctx context.Context, h history, round int, cold bool) (s sample, err error) {
	i, err := e.instance(ctx, h.system, h.label)
	if err != nil {
		return s, err
	}
	pool, q, err := i.connect(ctx, 1)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	before, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	f := newKeys(q, &i.next)
	if cold {
		if err := e.checkpoint(ctx); err != nil {
			return s, err
		}
	}
	warm, _, err := drive(ctx, 1, e.warm, uint64(2*round), f)
	if err != nil {
		return s, err
	}
	start, err := e.read(ctx)
	if err != nil {
		return s, err
	}
	done, took, err := drive(ctx, 1, e.cell, uint64(2*round+1), f)
	if err != nil {
		return s, err
	}
	if s, err = e.since(ctx, start, done.sent, took); err != nil {
		return s, err
	}
	after, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	sent := warm.sent + done.sent
	if warm.created+done.created != sent || after.pending-before.pending != sent {
		return s, fmt.Errorf("%s: of %d tasks sent %d were made, and the database has %d more", h.system.name, sent, warm.created+done.created, after.pending-before.pending)
	}
	return s, i.settle(ctx)
}

// settle works off what is pending, so that it is not in the way of later cells.
func (i *instance) settle(ctx context.Context) error {
	pool, q, err := i.connect(ctx, workerConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	working, stop := context.WithTimeout(ctx, cellTimeout)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- q.work(working, workConfig{workerConcurrency, func() {}}) }()
	for {
		busy, err := q.busy(ctx)
		if err != nil || !busy {
			stop()
			return errors.Join(err, <-ended)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			stop()
			return errors.Join(err, <-ended)
		}
	}
}
