package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const idleConcurrency = 10

// W6: how long a task takes from the enqueue call to its handler when the worker is idle.
func workload6() workload {
	return workload{"W6", "pick-up latency when idle", func(e *env) []group {
		g := group{Name: "from the call of enqueue to the handler's start", rounds: e.latencyRounds}
		for _, s := range []system{pgqueueSystem(), riverSystem(), gueSystem(), bareSystem()} {
			g.Variants = append(g.Variants, variant{Name: s.name, run: func(ctx context.Context, round int) (sample, error) {
				return e.latency(ctx, s, round)
			}})
		}
		return []group{g}
	}}
}

func (e *env) latency(ctx context.Context, system system, round int) (s sample, err error) {
	i, err := e.instance(ctx, system, "")
	if err != nil {
		return s, err
	}
	if err := i.empty(ctx); err != nil {
		return s, err
	}
	if err := e.checkpoint(ctx); err != nil {
		return s, err
	}
	pool, q, err := i.connect(ctx, 1)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	workerPool, worker, err := i.connect(ctx, workerConnections)
	if err != nil {
		return s, err
	}
	defer workerPool.Close()
	if err := i.vacuum(ctx); err != nil {
		return s, err
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	started := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- worker.work(working, workConfig{idleConcurrency, func() { started <- time.Now() }})
	}()
	const warm = 10
	random := rand.New(rand.NewPCG(6, uint64(round)))
	var latencies []float64
	var start meter
	for n := range warm + e.latencies {
		if n == warm {
			if start, err = e.read(ctx); err != nil {
				return s, err
			}
		}
		if err := pause(ctx, time.Duration(30+random.IntN(30))*time.Millisecond); err != nil {
			return s, err
		}
		took, err := pickUp(ctx, q, n, started, ended)
		if err != nil {
			return s, err
		}
		if n >= warm {
			latencies = append(latencies, took.Seconds()*1000)
		}
	}
	if s, err = e.since(ctx, start, len(latencies), time.Since(start.at)); err != nil {
		return s, err
	}
	slices.Sort(latencies)
	s.Extra = map[string]float64{"p50_ms": percentile(latencies, 50), "p99_ms": percentile(latencies, 99)}
	stop()
	if err := <-ended; err != nil {
		return s, err
	}
	found, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	if found.pending != 0 || found.settled != noHistory && found.settled != warm+e.latencies {
		return s, fmt.Errorf("%s: %d tasks are pending and %d settled of %d", system.name, found.pending, found.settled, warm+e.latencies)
	}
	return s, i.leave(ctx, false)
}

func pickUp(ctx context.Context, q queue, number int, started <-chan time.Time, ended <-chan error) (time.Duration, error) {
	called := time.Now()
	if err := q.enqueuePlain(ctx, number); err != nil {
		return 0, err
	}
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case at := <-started:
		return at.Sub(called), nil
	case err := <-ended:
		return 0, errors.Join(errors.New("the worker ended"), err)
	case <-timeout.C:
		return 0, errors.New("no handler started within 10 s")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
