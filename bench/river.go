package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

func riverSystem() system {
	return system{
		name: "River", module: "github.com/riverqueue/river",
		install: installRiver, tables: named("river_job", "river_notification"),
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quietLogger()})
			if err != nil {
				return nil, err
			}
			// Inserts notify once in this time; the default of 100 ms saves notifications, but leaves tasks to the next poll.
			prompt, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quietLogger(), FetchCooldown: river.FetchCooldownMin})
			return &riverQueue{pool, client, prompt}, err
		},
	}
}

func installRiver(ctx context.Context, conn *pgx.Conn) error {
	pool, err := pgxpool.New(ctx, conn.Config().ConnString())
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quietLogger()})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

type riverArgs order

func (riverArgs) Kind() string { return taskName }

// riverUnique: unique while pending, as elsewhere here. River's default counts completed jobs too.
var riverUnique = river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}}

type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	prompt *river.Client[pgx.Tx]
}

func (q *riverQueue) enqueue(ctx context.Context, number int) (bool, error) {
	result, err := q.client.Insert(ctx, riverArgs(newOrder(number)), &river.InsertOpts{UniqueOpts: riverUnique})
	if err != nil {
		return false, err
	}
	return !result.UniqueSkippedAsDuplicate, nil
}

func (q *riverQueue) enqueueMany(ctx context.Context, numbers []int) (int, error) {
	params := make([]river.InsertManyParams, len(numbers))
	for i, n := range numbers {
		params[i] = river.InsertManyParams{Args: riverArgs(newOrder(n)), InsertOpts: &river.InsertOpts{UniqueOpts: riverUnique}}
	}
	results, err := q.client.InsertMany(ctx, params)
	created := 0
	for _, r := range results {
		if !r.UniqueSkippedAsDuplicate {
			created++
		}
	}
	return created, err
}

func (q *riverQueue) enqueuePlain(ctx context.Context, number int) error {
	_, err := q.prompt.Insert(ctx, riverArgs(newOrder(number)), nil)
	return err
}

func (q *riverQueue) load(ctx context.Context, tasks int, half bool) error {
	later := &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)}
	return batches(tasks, func(from, to int) error {
		params := make([]river.InsertManyParams, 0, to-from)
		for n := from; n < to; n++ {
			p := river.InsertManyParams{Args: riverArgs(newOrder(n))}
			if half && n%2 == 1 {
				p.InsertOpts = later
			}
			params = append(params, p)
		}
		_, err := q.client.InsertManyFast(ctx, params)
		return err
	})
}

func (q *riverQueue) busy(ctx context.Context) (busy bool, err error) {
	err = q.pool.QueryRow(ctx, "select exists (select from river_job where state <> 'completed')").Scan(&busy)
	return busy, err
}

func (q *riverQueue) count(ctx context.Context) (c counts, err error) {
	err = q.pool.QueryRow(ctx, "select count(*) filter (where state <> 'completed'), count(*) filter (where state = 'completed') from river_job").
		Scan(&c.pending, &c.settled)
	return c, err
}

func (q *riverQueue) work(ctx context.Context, config workConfig) error {
	workers := river.NewWorkers()
	err := river.AddWorkerSafely(workers, river.WorkFunc(func(context.Context, *river.Job[riverArgs]) error {
		config.handle()
		return nil
	}))
	if err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger: quietLogger(), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: config.concurrency}},
		// The shortest: River's default of 100 ms holds a worker of 100 to 1,000 jobs/s.
		FetchCooldown: river.FetchCooldownMin,
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return client.Stop(stopping)
}

var errNoUnique = errors.New("this system has no unique tasks")
