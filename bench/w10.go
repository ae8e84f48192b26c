package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	trafficConnections = 4
	trafficPause       = 5 * time.Millisecond // between two enqueues of a connection: the server is busy, not full
	pruners            = 2
)

// W10: what an enqueue takes while two pruners delete a long history. Both states are measured in one cell, one after the other on
// the same history, so that their ratio is of one machine and one moment.
func workload10() workload {
	return workload{"W10", "enqueue beside two pruners", func(e *env) []group {
		return []group{{
			Name: fmt.Sprintf("unique enqueue on %d connections while %d settled tasks are pruned", trafficConnections, e.pruned), rounds: e.slowRounds,
			Variants: []variant{{Name: mine, run: func(ctx context.Context, round int) (sample, error) { return e.prune(ctx, round) }}},
		}}
	}}
}

func (e *env) prune(ctx context.Context, round int) (s sample, err error) {
	i, err := e.instance(ctx, pgqueueSystem(), fmt.Sprintf(" W10 %d", round))
	if err != nil {
		return s, err
	}
	if err := fillPgqueue(ctx, i, e.pruned); err != nil {
		return s, err
	}
	if err := i.vacuum(ctx); err != nil {
		return s, err
	}
	pool, q, err := i.connect(ctx, trafficConnections+pruners)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	client := q.(*pgqueueQueue).client
	if err := e.checkpoint(ctx); err != nil {
		return s, err
	}
	if _, err := e.traffic(ctx, q, &i.next, func(ctx context.Context) error { return pause(ctx, e.warm) }); err != nil {
		return s, err
	}
	before, err := e.traffic(ctx, q, &i.next, func(ctx context.Context) error { return pause(ctx, 2*e.cell) })
	if err != nil {
		return s, err
	}
	start, err := e.read(ctx)
	if err != nil {
		return s, err
	}
	during, err := e.traffic(ctx, q, &i.next, func(ctx context.Context) error { return pruneAll(ctx, client) })
	if err != nil {
		return s, err
	}
	if s, err = e.since(ctx, start, e.pruned, time.Since(start.at)); err != nil {
		return s, err
	}
	s.Extra = map[string]float64{
		"p50_ms": percentile(during, 50), "p99_ms": percentile(during, 99),
		"baseline_p50_ms": percentile(before, 50), "baseline_p99_ms": percentile(before, 99),
	}
	var settled int
	err = i.admin(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "select count(*) from pgqueue.task where finished_at is not null").Scan(&settled)
	})
	if err != nil || settled != 0 {
		return s, fmt.Errorf("%d settled tasks are left, %w", settled, err)
	}
	return s, i.leave(ctx, false)
}

// traffic enqueues new keys at a steady pace while f runs, and returns what each call took, in milliseconds and sorted. Any error,
// a deadlock too, ends it.
func (e *env) traffic(ctx context.Context, q queue, next *atomic.Int64, f func(context.Context) error) ([]float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	took := make([][]float64, trafficConnections)
	errs := make([]error, trafficConnections)
	var running sync.WaitGroup
	for c := range trafficConnections {
		first := int(next.Load()) + 1 + c
		running.Go(func() {
			for n := first; ctx.Err() == nil; n += trafficConnections {
				began := time.Now()
				if _, err := q.enqueue(context.WithoutCancel(ctx), n); err != nil {
					errs[c] = err
					stop()
					return
				}
				took[c] = append(took[c], time.Since(began).Seconds()*1000)
				if pause(ctx, trafficPause) != nil {
					return
				}
			}
		})
	}
	err := f(ctx)
	stop()
	running.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	all := slices.Concat(took...)
	next.Add(int64(trafficConnections * (len(all) + 1)))
	slices.Sort(all)
	return all, nil
}

func pruneAll(ctx context.Context, client *pgqueue.Client) error {
	at := time.Duration(0)
	errs := make([]error, pruners)
	var running sync.WaitGroup
	for p := range pruners {
		running.Go(func() {
			_, errs[p] = client.Prune(ctx, pgqueue.PruneOptions{Retention: &at, DiscardedRetention: &at})
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
