package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	faultKill      = "worker killed"
	faultStop      = "worker stopped past its lease"
	faultTerminate = "backend terminated"
	faultCut       = "connections cut"
	faultDelay     = "connections delayed"
	faultHole      = "connections blackholed"
	faultRestart   = "server restarted"
	faultFailover  = "failover"
	faultStall     = "machine or server stalled (not injected)"
)

// fault is something that was done to the system. Its scope is a process (w3.2), a slot with all its processes (w3), or empty for
// everybody.
type fault struct {
	kind, scope string
	from, to    time.Time
}

func (f fault) hits(process string) bool {
	return f.scope == "" || f.scope == process || strings.HasPrefix(process, f.scope+".")
}

// overlaps tells whether the fault, or what it left behind for the length of a lease, was there between from and to.
func (f fault) overlaps(from, to time.Time) bool {
	return !f.from.After(to) && !f.to.Add(lease).Before(from)
}

type faultLog struct {
	mu     sync.Mutex
	faults []fault
}

func (l *faultLog) add(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

func (l *faultLog) all() []fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// schedule spreads n faults over a phase at random times, and does them one after the other; what comes late is done late, never
// left out.
func schedule(ctx context.Context, random *rand.Rand, begin time.Time, length time.Duration, n int, do func(random *rand.Rand) error) error {
	at := make([]time.Duration, n)
	for i := range at {
		// One in each part of the time, so that they do not bunch.
		at[i] = time.Duration((float64(i) + random.Float64()) / float64(n) * float64(length))
	}
	for _, d := range at {
		if !sleep(ctx, time.Until(begin.Add(d))) {
			return nil
		}
		if err := do(random); err != nil {
			return err
		}
	}
	return nil
}

// pick waits for a slot that no other fault is at, and reserves it.
func (c *conductor) pick(random *rand.Rand) *slot {
	for {
		if s := c.slots[random.IntN(len(c.slots))]; s.take() {
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// killWorker kills a worker process with SIGKILL and starts its successor.
func (c *conductor) killWorker(random *rand.Rand) error {
	s := c.pick(random)
	defer s.free()
	f := fault{kind: faultKill, scope: s.process.name, from: time.Now()}
	if err := s.process.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.process.name, err)
	}
	f.to = time.Now()
	c.faults.add(f)
	return s.start()
}

// stopWorker stops a worker process for longer than its lease.
func (c *conductor) stopWorker(random *rand.Rand) error {
	s := c.pick(random)
	defer s.free()
	f := fault{kind: faultStop, scope: s.process.name, from: time.Now()}
	if err := s.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", s.process.name, err)
	}
	time.Sleep(lease + time.Duration(500+random.IntN(1500))*time.Millisecond)
	if err := s.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue %s: %w", s.process.name, err)
	}
	f.to = time.Now()
	c.faults.add(f)
	return nil
}

type backend struct {
	PID  int
	Name string
}

// terminate ends a backend of a worker or a producer.
func (c *conductor) terminate(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		admin := c.cluster.admin()
		backends, err := structs[backend](ctx, admin, backendsSQL)
		if err == nil && len(backends) > 0 {
			b := backends[random.IntN(len(backends))]
			var done bool
			f := fault{kind: faultTerminate, scope: b.Name, from: time.Now()}
			if done, err = one[bool](ctx, admin, terminateSQL, b.PID); err == nil && done {
				f.to = time.Now()
				c.faults.add(f)
				return nil
			}
		}
		// The server may be away just now.
		sleep(ctx, 100*time.Millisecond)
	}
	return nil
}
