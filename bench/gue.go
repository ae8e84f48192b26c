package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

// gue ships its schema as a file that its users copy; this is migrations/schema.sql of v5.8.0.
const gueSchema = `
create table gue_jobs (
	job_id text not null primary key,
	priority smallint not null,
	run_at timestamptz not null,
	job_type text not null,
	args bytea not null,
	error_count integer not null default 0,
	last_error text,
	queue text not null,
	created_at timestamptz not null,
	updated_at timestamptz not null
);
create index idx_gue_jobs_selector on gue_jobs (queue, run_at, priority);`

func gueSystem() system {
	return system{
		name: "gue", module: "github.com/vgarvardt/gue/v5",
		install: func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, gueSchema)
			return err
		},
		tables: named("gue_jobs"),
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			client, err := gue.NewClient(pgxv5.NewConnPool(pool))
			return &gueQueue{pool, client}, err
		},
	}
}

type gueQueue struct {
	pool   *pgxpool.Pool
	client *gue.Client
}

func (q *gueQueue) enqueue(context.Context, int) (bool, error)      { return false, errNoUnique }
func (q *gueQueue) enqueueMany(context.Context, []int) (int, error) { return 0, errNoUnique }

func gueJob(number int) (*gue.Job, error) {
	args, err := json.Marshal(newOrder(number))
	return &gue.Job{Type: taskName, Args: args}, err
}

func (q *gueQueue) enqueuePlain(ctx context.Context, number int) error {
	job, err := gueJob(number)
	if err != nil {
		return err
	}
	return q.client.Enqueue(ctx, job)
}

func (q *gueQueue) load(ctx context.Context, tasks int, half bool) error {
	later := time.Now().Add(time.Hour)
	return batches(tasks, func(from, to int) error {
		jobs := make([]*gue.Job, 0, to-from)
		for n := from; n < to; n++ {
			job, err := gueJob(n)
			if err != nil {
				return err
			}
			if half && n%2 == 1 {
				job.RunAt = later
			}
			jobs = append(jobs, job)
		}
		return q.client.EnqueueBatch(ctx, jobs)
	})
}

func (q *gueQueue) busy(ctx context.Context) (busy bool, err error) {
	err = q.pool.QueryRow(ctx, "select exists (select from gue_jobs)").Scan(&busy)
	return busy, err
}

func (q *gueQueue) count(ctx context.Context) (counts, error) {
	c := counts{settled: noHistory}
	err := q.pool.QueryRow(ctx, "select count(*) from gue_jobs").Scan(&c.pending)
	return c, err
}

func (q *gueQueue) work(ctx context.Context, config workConfig) error {
	jobs := gue.WorkMap{taskName: func(context.Context, *gue.Job) error {
		config.handle()
		return nil
	}}
	pool, err := gue.NewWorkerPool(q.client, jobs, config.concurrency,
		// Its default of 5 s and the order by priority, which no index of its schema serves, would make it look worse than it is.
		gue.WithPoolPollInterval(100*time.Millisecond), gue.WithPoolPollStrategy(gue.RunAtPollStrategy),
		gue.WithPoolGracefulShutdown(nil))
	if err != nil {
		return err
	}
	return pool.Run(ctx)
}
