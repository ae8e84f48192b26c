package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	hotKeys = 1000
	zipf    = 1.1
	// hotHold is what each handler takes: all workers free at most 1,000 keys a second, so that no system has many more tasks to
	// make than another.
	hotHold = 100 * time.Millisecond
)

// W3: hot keys, some much hotter than others, enqueued while a worker settles them.
func workload3() workload {
	return workload{"W3", "hot keys with a worker", func(e *env) []group {
		g := group{Name: fmt.Sprintf("zipf(%.1f) over %d keys, 8 connections, worker with %v handlers", zipf, hotKeys, hotHold), rounds: e.rounds}
		for _, s := range []system{pgqueueSystem(), riverSystem(), bareHeldSystem()} {
			g.Variants = append(g.Variants, variant{Name: s.name, run: func(ctx context.Context, round int) (sample, error) {
				return e.hot(ctx, s, round)
			}})
		}
		return []group{g}
	}}
}

func (e *env) hot(ctx context.Context, system system, round int) (s sample, err error) {
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
	const connections = 8
	pool, q, err := i.connect(ctx, connections)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	if err := q.load(ctx, warmTasks, false); err != nil {
		return s, err
	}
	w, err := startWorker(ctx, workerSpec{
		System: system.name, URL: i.url, Concurrency: workerConcurrency, Warm: warmTasks, Mark: math.MaxInt, Hold: hotHold,
	})
	if err != nil {
		return s, err
	}
	if err := i.vacuum(ctx); err != nil { // with the warm-up's tasks: a planner that saw empty tables is nobody's everyday
		return s, w.abandon(err)
	}
	f := hotCall(q)
	if err := w.begin(); err != nil {
		return s, w.abandon(err)
	}
	warm, _, err := drive(ctx, connections, e.warm, uint64(2*round), f)
	if err != nil {
		return s, w.abandon(err)
	}
	start, err := e.read(ctx)
	if err != nil {
		return s, w.abandon(err)
	}
	done, took, err := drive(ctx, connections, e.cell, uint64(2*round+1), f)
	if err != nil {
		return s, w.abandon(err)
	}
	if s, err = e.since(ctx, start, done.sent, took); err != nil {
		return s, w.abandon(err)
	}
	last, err := w.end()
	if err != nil {
		return s, err
	}
	s.Extra = map[string]float64{"created_share": float64(done.created) / float64(done.sent)}

	found, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	made := warm.created + done.created
	if found.pending != made-last.Tasks || found.settled != noHistory && found.settled != last.Tasks+warmTasks {
		return s, fmt.Errorf("%s: %d tasks were made and %d handled, but %d are pending and %d settled",
			system.name, made, last.Tasks, found.pending, found.settled)
	}
	if last.Tasks == 0 || made == done.sent+warm.sent {
		return s, errors.New("no key was ever held, or the worker did nothing")
	}
	return s, i.leave(ctx, false)
}

// hotCall picks keys by a table of their cumulated weights.
func hotCall(q queue) call {
	weights := make([]float64, hotKeys)
	total := 0.0
	for k := range weights {
		total += math.Pow(float64(k+1), -zipf)
		weights[k] = total
	}
	return func(ctx context.Context, random *rand.Rand) (tally, error) {
		key, _ := slices.BinarySearch(weights, random.Float64()*total)
		created, err := q.enqueue(ctx, key)
		return one(created), err
	}
}
