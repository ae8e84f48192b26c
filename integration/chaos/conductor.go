package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	workers   = 6
	producers = 6
	cutters   = 2
	// patience is how long nothing may move before the suite gives up.
	patience = 60 * time.Second
)

// round is what one round does.
type round struct {
	out   io.Writer
	seed  uint64 // of the schedules of faults and requests
	plans []plan
	keep  bool

	// To see that the suite finds what is broken: settings of the server, and SQL that is run on the migrated database.
	settings map[string]string
	sabotage string
}

// conductor runs a round on a cluster of its own.
type conductor struct {
	round

	began   time.Time
	dir     string
	cluster *cluster
	proxies *proxies

	slots     []*slot
	producers []*producer
	cutters   []*cutter
	victims   []string // proxies for network faults
	ledger    *ledger
	faults    faultLog
	pending   atomic.Int64

	restarts    map[devserver.StopMode]int
	synchronous int // tasks that were committed on two servers
	checks      int
	last        verdict

	mu       sync.Mutex
	findings []string
}

// run runs a whole round. An error is the end of it before its time; what was found is in the summary either way.
func (r round) run(ctx context.Context) (s summary, err error) {
	c := &conductor{
		round: r, began: time.Now(), proxies: newProxies(), ledger: newLedger(), restarts: make(map[devserver.StopMode]int),
	}
	if c.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
		return s, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() {
		fail(nil)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.close(closing))
		if c.keep || err != nil || len(c.findings) > 0 {
			fmt.Fprintf(c.out, "journals and logs of the workers are in %s\n", c.dir)
		} else {
			err = os.RemoveAll(c.dir)
		}
	}()
	if err := c.start(ctx, fail); err != nil {
		return c.summarize(), err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer fail(nil)
	watching.Go(func() { c.heartbeat(ctx) })
	watching.Go(func() { c.watchPending(ctx) })
	for i, p := range c.plans {
		if err := c.runPhase(ctx, i, p); err != nil {
			return c.summarize(), fmt.Errorf("phase %s: %w", p.name, cause(ctx, err))
		}
	}
	if err := c.drainWorkers(); err != nil {
		return c.summarize(), err
	}
	fmt.Fprintf(c.out, "%s  last check\n", c.elapsed())
	err = c.check(ctx)
	return c.summarize(), err
}

// cause is why the context ended, where that is behind the error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *conductor) elapsed() string {
	return fmt.Sprintf("%4.0f s", time.Since(c.began).Seconds())
}

func (c *conductor) find(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, fmt.Sprintf(format, args...))
}

func (c *conductor) start(ctx context.Context, fail func(error)) (err error) {
	if c.cluster, err = startCluster(ctx, c.settings, c.sabotage); err != nil {
		return err
	}
	source := &requests{}
	for n := range producers + cutters {
		p, err := c.newProducer(ctx, fmt.Sprintf("p%d", n+1), source, uint64(n))
		if err != nil {
			return err
		}
		if n < producers {
			c.producers = append(c.producers, p)
			c.victims = append(c.victims, p.name)
		} else {
			c.cutters = append(c.cutters, &cutter{producer: *p, proxy: c.proxies.all[p.name]})
		}
	}
	for n := range workers {
		s := &slot{name: fmt.Sprintf("w%d", n+1), dir: c.dir, unasked: func(err error) {
			c.find("%v", err)
			fail(err)
		}}
		if s.url, err = c.proxies.add(s.name, c.cluster.address()); err != nil {
			return err
		}
		if err := s.start(); err != nil {
			return err
		}
		c.slots = append(c.slots, s)
		c.victims = append(c.victims, s.name)
	}
	return nil
}

func (c *conductor) newProducer(ctx context.Context, name string, source *requests, number uint64) (*producer, error) {
	url, err := c.proxies.add(name, c.cluster.address())
	if err != nil {
		return nil, err
	}
	pool, err := connect(url, name, 2)
	if err != nil {
		return nil, err
	}
	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{})
	return &producer{
		name: name, pool: pool, client: client, ledger: c.ledger, source: source,
		random: rand.New(rand.NewPCG(c.seed, 1<<32|number)),
	}, err
}

// heartbeat writes to the server all the time, past all proxies. What it notes is the server not answering for no reason of ours.
func (c *conductor) heartbeat(ctx context.Context) {
	for last := time.Now(); sleep(ctx, 100*time.Millisecond); {
		beating, cancel := context.WithTimeout(ctx, patience)
		_, err := c.cluster.admin().Exec(beating, heartbeatSQL)
		cancel()
		if now := time.Now(); err == nil {
			if now.Sub(last) > stallTicks+100*time.Millisecond {
				c.faults.add(fault{kind: faultStall, from: last, to: now})
			}
			last = now
		}
	}
}

func (c *conductor) watchPending(ctx context.Context) {
	for sleep(ctx, 300*time.Millisecond) {
		if n, err := one[int64](ctx, c.cluster.admin(), pendingSQL); err == nil {
			c.pending.Store(n)
		}
	}
}

// drainWorkers ends all workers as an operator would.
func (c *conductor) drainWorkers() error {
	failed := make([]error, len(c.slots))
	var all sync.WaitGroup
	for i, s := range c.slots {
		all.Go(func() { failed[i] = s.process.drain(patience) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (c *conductor) close(ctx context.Context) error {
	var errs []error
	for _, s := range c.slots {
		select {
		case <-s.process.ended:
		default:
			errs = append(errs, s.process.cmd.Process.Signal(syscall.SIGCONT), s.process.kill())
		}
	}
	for _, p := range c.producers {
		p.pool.Close()
	}
	for _, k := range c.cutters {
		k.pool.Close()
	}
	c.proxies.close()
	if c.cluster != nil {
		if logs, err := c.cluster.log(); err == nil {
			for i, text := range logs {
				errs = append(errs, os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("server-%d.log", i+1)), []byte(text), 0o600))
			}
		}
		errs = append(errs, c.cluster.close(ctx))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, os.ErrProcessDone) })
	return errors.Join(errs...)
}
