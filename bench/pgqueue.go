package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sql"
)

func pgqueueSystem() system {
	return system{
		name: "pgqueue", module: "github.com/pgqueue/pgqueue",
		install: sql.Migrate, tables: pgqueueTables,
		open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) { return openPgqueue(ctx, pool) },
	}
}

func pgqueueTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	// The query's error comes with the rows.
	rows, _ := conn.Query(ctx, `select c.oid::regclass::text from pg_class c
		where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'p') and c.relname not like 'schema\_%'`)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

var (
	plainOrder  = pgqueue.Define(taskName, pgqueue.TaskOptions[order]{})
	uniqueOrder = pgqueue.Define(taskName, pgqueue.TaskOptions[order]{UniqueWhileActive: order.key})
)

type pgqueueQueue struct {
	pool   *pgxpool.Pool
	client *pgqueue.Client
}

func openPgqueue(ctx context.Context, pool *pgxpool.Pool) (*pgqueueQueue, error) {
	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Logger: quietLogger()})
	if err != nil {
		return nil, err
	}
	return &pgqueueQueue{pool, client}, nil
}

func (q *pgqueueQueue) enqueue(ctx context.Context, number int) (bool, error) {
	receipt, err := uniqueOrder.Enqueue(ctx, q.client, newOrder(number))
	return receipt.Created(), err
}

func (q *pgqueueQueue) enqueueMany(ctx context.Context, numbers []int) (int, error) {
	orders := make([]order, len(numbers))
	for i, n := range numbers {
		orders[i] = newOrder(n)
	}
	receipts, err := uniqueOrder.EnqueueMany(ctx, q.client, orders)
	created := 0
	for _, r := range receipts {
		if r.Created() {
			created++
		}
	}
	return created, err
}

func (q *pgqueueQueue) enqueuePlain(ctx context.Context, number int) error {
	_, err := plainOrder.Enqueue(ctx, q.client, newOrder(number))
	return err
}

func (q *pgqueueQueue) load(ctx context.Context, tasks int, half bool) error {
	return batches(tasks, func(from, to int) error {
		requests := make([]pgqueue.Request, 0, to-from)
		for n := from; n < to; n++ {
			r, err := plainOrder.Request(newOrder(n))
			if err != nil {
				return err
			}
			if half && n%2 == 1 {
				r.Delay = time.Hour
			}
			requests = append(requests, r)
		}
		_, err := q.client.EnqueueMany(ctx, requests, pgqueue.BatchOptions{})
		return err
	})
}

func (q *pgqueueQueue) busy(ctx context.Context) (busy bool, err error) {
	err = q.pool.QueryRow(ctx, "select exists (select from pgqueue.task_view where status in ('READY', 'RUNNING'))").Scan(&busy)
	return busy, err
}

// count also looks for what must not be, where the tables are small enough for it.
func (q *pgqueueQueue) count(ctx context.Context) (c counts, err error) {
	err = q.pool.QueryRow(ctx, `select count(*) filter (where status in ('READY', 'RUNNING')), count(*) filter (where status = 'SUCCESSFUL')
		from pgqueue.task_view`).Scan(&c.pending, &c.settled)
	if err != nil || c.pending+c.settled > 100_000 {
		return c, err
	}
	var violations int
	if err := q.pool.QueryRow(ctx, "select count(*) from pgqueue.check_invariants()").Scan(&violations); err != nil {
		return c, err
	}
	if violations > 0 {
		return c, fmt.Errorf("pgqueue.check_invariants() finds %d violations", violations)
	}
	return c, nil
}

func (q *pgqueueQueue) work(ctx context.Context, config workConfig) error {
	w := pgqueue.NewWorker(q.client, pgqueue.WorkerConfig{Concurrency: config.concurrency})
	pgqueue.Handle(w, plainOrder, func(context.Context, *pgqueue.Task[order]) error {
		config.handle()
		return nil
	})
	return w.Run(ctx)
}

// pgqueueSQLSystem is pgqueue without its Go client: what a program in any language sends.
func pgqueueSQLSystem() system {
	s := pgqueueSystem()
	s.name = "pgqueue, SQL"
	s.open = func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
		q, err := openPgqueue(ctx, pool)
		return &pgqueueSQLQueue{q}, err
	}
	return s
}

type pgqueueSQLQueue struct{ *pgqueueQueue }

func (q *pgqueueSQLQueue) enqueue(ctx context.Context, number int) (bool, error) {
	o := newOrder(number)
	payload, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	var id, disposition string
	err = q.pool.QueryRow(ctx, `select task_id::text, disposition::text
		from pgqueue.enqueue_unique(task_name => $1, payload => $2, active_key => $3)`, taskName, string(payload), o.key()).Scan(&id, &disposition)
	return disposition == "CREATED", err
}

// quietLogger drops what the libraries say while all is well.
func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
