package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// tally counts tasks that were sent, and those that were made of them.
type tally struct{ sent, created int }

// call enqueues once, for one or many tasks.
type call func(ctx context.Context, random *rand.Rand) (tally, error)

// drive calls from several goroutines, one for each connection, until the time is over. It returns when the last call has ended.
func drive(ctx context.Context, connections int, length time.Duration, seed uint64, f call) (tally, time.Duration, error) {
	var sent, created atomic.Int64
	began := time.Now()
	end := began.Add(length)
	group, ctx := errgroup.WithContext(ctx)
	for c := range connections {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(c)))
			for time.Now().Before(end) {
				t, err := f(ctx, random)
				if err != nil {
					return err
				}
				sent.Add(int64(t.sent))
				created.Add(int64(t.created))
			}
			return nil
		})
	}
	err := group.Wait()
	return tally{int(sent.Load()), int(created.Load())}, time.Since(began), err
}

// enqueueCell enqueues for a time, and checks that the database holds what was made.
type enqueueCell struct {
	system      system
	connections int
	// prepare enqueues what is there before.
	prepare func(ctx context.Context, q queue) (created int, err error)
	call    func(q queue) call
	// created is how many of the tasks sent must be new.
	created func(sent int) int
}

func (e *env) enqueue(ctx context.Context, c enqueueCell, round int) (s sample, err error) {
	i, err := e.instance(ctx, c.system, "")
	if err != nil {
		return s, err
	}
	if err := i.empty(ctx); err != nil {
		return s, err
	}
	if err := e.checkpoint(ctx); err != nil {
		return s, err
	}
	pool, q, err := i.connect(ctx, c.connections)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	before := 0
	if c.prepare != nil {
		if before, err = c.prepare(ctx, q); err != nil {
			return s, fmt.Errorf("prepare: %w", err)
		}
	}
	if err := i.vacuum(ctx); err != nil {
		return s, err
	}
	f := c.call(q)
	warm, _, err := drive(ctx, c.connections, e.warm, uint64(2*round), f)
	if err != nil {
		return s, fmt.Errorf("warm up: %w", err)
	}
	start, err := e.read(ctx)
	if err != nil {
		return s, err
	}
	done, took, err := drive(ctx, c.connections, e.cell, uint64(2*round+1), f)
	if err != nil {
		return s, err
	}
	if s, err = e.since(ctx, start, done.sent, took); err != nil {
		return s, err
	}
	if want := c.created(warm.sent + done.sent); warm.created+done.created != want {
		return s, fmt.Errorf("%s: of %d tasks sent %d were made, not %d", c.system.name, warm.sent+done.sent, warm.created+done.created, want)
	}
	found, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	if want := before + warm.created + done.created; found.pending != want || found.settled > 0 {
		return s, fmt.Errorf("%s: the database has %d pending and %d settled tasks, it should have %d pending",
			c.system.name, found.pending, found.settled, want)
	}
	return s, i.leave(ctx, false)
}
