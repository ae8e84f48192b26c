package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
)

// plan is what a phase does. The numbers are met however slow the machine is; the length is what they are spread over.
type plan struct {
	name                       string
	tasks                      int
	length                     time.Duration
	kills, stops, terminations int
	restarts, network          int
	cutCommits, failover       bool
}

// No backend is terminated around a failover: one that ends while it waits for the standby has committed all the same, others see
// what the standby may not have, and then a promotion takes back what was seen. That is PostgreSQL's, and nothing to look for here.
var plans = []plan{
	{name: "kills and stops", tasks: 10200, length: 15 * time.Second, kills: 10, stops: 5},
	{name: "terminated backends", tasks: 10200, length: 14 * time.Second, kills: 6, stops: 2, terminations: 40},
	{name: "server restarts", tasks: 10200, length: 16 * time.Second, kills: 6, stops: 2, terminations: 5, restarts: 3},
	{name: "network", tasks: 10200, length: 16 * time.Second, kills: 6, stops: 2, network: 9, cutCommits: true},
	{name: "failover", tasks: 10200, length: 16 * time.Second, kills: 6, stops: 2, failover: true},
}

// phase paces the producers while the faults of a plan are done.
type phase struct {
	plan

	begin   time.Time
	before  int // tasks there were
	tasks   func() int
	pending func() int
	faulted chan struct{} // closed when all faults are done
}

// goesOn tells whether there is anything left to do.
func (ph *phase) goesOn(ctx context.Context) bool {
	select {
	case <-ph.faulted:
		return ctx.Err() == nil && ph.tasks()-ph.before < ph.plan.tasks
	default:
		return ctx.Err() == nil
	}
}

// allow waits until a producer may go on, so that the tasks are spread over the phase. It is false at the end.
func (ph *phase) allow(ctx context.Context) bool {
	for ph.goesOn(ctx) {
		due := float64(ph.plan.tasks) * float64(time.Since(ph.begin)) / float64(ph.length)
		if over := float64(ph.plan.tasks); due > over {
			due = over + (due-over)/4 // a trickle for what faults are left
		}
		made := ph.tasks() - ph.before
		if float64(made) < due && ph.pending() < maxPending {
			return true
		}
		sleep(ctx, 10*time.Millisecond)
	}
	return false
}

// runPhase lets producers produce while the faults of the plan are injected, waits until all tasks are settled, and checks.
func (c *conductor) runPhase(ctx context.Context, number int, p plan) error {
	fmt.Fprintf(c.out, "%s  phase %d: %s\n", c.elapsed(), number+1, p.name)
	ph := &phase{
		plan: p, begin: time.Now(), before: c.ledger.tasks(), tasks: c.ledger.tasks,
		pending: func() int { return int(c.pending.Load()) }, faulted: make(chan struct{}),
	}
	group := newGroup(ctx)
	for _, producer := range c.producers {
		group.run(func(ctx context.Context) error { return producer.produce(ctx, ph) })
	}
	if p.cutCommits {
		for _, cutter := range c.cutters {
			group.run(func(ctx context.Context) error { return cutter.cutCommits(ctx, ph) })
		}
	}
	var faults sync.WaitGroup
	inject := func(stream uint64, n int, do func(ctx context.Context, random *rand.Rand) error) {
		random := rand.New(rand.NewPCG(c.seed, uint64(number)<<8|stream))
		faults.Add(1)
		group.run(func(ctx context.Context) error {
			defer faults.Done()
			return schedule(ctx, random, ph.begin, p.length, n, func(random *rand.Rand) error { return do(ctx, random) })
		})
	}
	inject(1, p.kills, func(_ context.Context, random *rand.Rand) error { return c.killWorker(random) })
	inject(2, p.stops, func(_ context.Context, random *rand.Rand) error { return c.stopWorker(random) })
	inject(3, p.terminations, c.terminate)
	restarts := 0
	inject(4, p.restarts, func(ctx context.Context, _ *rand.Rand) error {
		restarts++
		return c.restart(ctx, restarts)
	})
	for stream := range uint64(2) { // faults of the network take long, so two of them at a time
		inject(5+stream, p.network, func(_ context.Context, random *rand.Rand) error { return c.networkFault(random) })
	}
	if p.failover {
		faults.Add(1)
		group.run(func(ctx context.Context) error {
			defer faults.Done()
			return c.failOver(ctx)
		})
	}
	group.run(func(context.Context) error {
		faults.Wait()
		close(ph.faulted)
		return nil
	})
	if err := group.wait(); err != nil {
		return err
	}
	loaded := time.Now()
	if err := c.drain(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s  %.0f s under load, %.0f s more until all was settled\n", c.elapsed(), loaded.Sub(ph.begin).Seconds(), time.Since(loaded).Seconds())
	return c.check(ctx)
}

// restart takes the server down under load, and up again: without a checkpoint, every second time after all leases have ended, and
// every third time as an operator would.
func (c *conductor) restart(ctx context.Context, number int) error {
	mode, down := devserver.Immediate, time.Duration(0)
	if number%3 == 0 {
		mode = devserver.Fast
	} else if number%2 == 0 {
		down = lease + time.Second
	}
	f := fault{kind: faultRestart, from: time.Now()}
	if err := c.cluster.primary.Halt(ctx, mode); err != nil {
		return err
	}
	sleep(ctx, down)
	if err := c.cluster.primary.Start(ctx); err != nil {
		return err
	}
	f.to = time.Now()
	c.faults.add(f)
	c.restarts[mode]++
	return nil
}

// failOver makes a synchronous standby, lets commits wait for it for a while, and then loses the primary.
func (c *conductor) failOver(ctx context.Context) error {
	if err := c.cluster.makeStandby(ctx); err != nil {
		return fmt.Errorf("make a standby: %w", err)
	}
	before := c.ledger.tasks()
	sleep(ctx, 5*time.Second)
	for waiting := time.Now(); c.ledger.tasks()-before < 200 && time.Since(waiting) < patience; {
		sleep(ctx, 50*time.Millisecond)
	}
	c.synchronous = c.ledger.tasks() - before
	f := fault{kind: faultFailover, from: time.Now()}
	if err := c.cluster.failOver(ctx); err != nil {
		return fmt.Errorf("failover: %w", err)
	}
	if err := c.proxies.repoint(c.cluster.address()); err != nil {
		return err
	}
	f.to = time.Now()
	c.faults.add(f)
	sleep(ctx, 4*time.Second)
	return nil
}

// drain waits until no task is pending. It gives up when nothing moves any more.
func (c *conductor) drain(ctx context.Context) error {
	last, moved := -1, time.Now()
	for quiet := 0; quiet < 3; {
		n, err := one[int](ctx, c.cluster.admin(), pendingSQL)
		if err != nil {
			return fmt.Errorf("look at the tasks: %w", err)
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > patience && n > 0 {
			stuck, err := list[string](ctx, c.cluster.admin(), stuckSQL)
			for _, s := range stuck {
				c.find("pending and nothing moves: %s", s)
			}
			return errors.Join(fmt.Errorf("%d tasks are pending, and for %s none was settled", n, patience), err)
		}
		if quiet++; n > 0 {
			quiet = 0
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// group runs functions until all are done, or one fails and ends the context of all.
type group struct {
	ctx  context.Context
	fail context.CancelCauseFunc
	all  sync.WaitGroup
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.fail = context.WithCancelCause(ctx)
	return g
}

func (g *group) run(f func(ctx context.Context) error) {
	g.all.Go(func() {
		if err := f(g.ctx); err != nil {
			g.fail(err)
		}
	})
}

func (g *group) wait() error {
	g.all.Wait()
	err := context.Cause(g.ctx)
	g.fail(nil)
	return err
}
