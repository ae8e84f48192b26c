package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// run is a demo on a server.
type run struct {
	options   Options
	input     input
	plan      plan
	url       string
	namespace string
	pool      *pgxpool.Pool
	client    *pgqueue.Client
	ledger    *ledger
	display   *display
	begin     time.Time

	processes []*process
	pending   atomic.Int64 // tasks, at the last look

	mu     sync.Mutex
	victim string // name of the worker that was killed
	held   int
	looks  int
	seen   int // most active keys with two pending tasks in one look
}

// run delivers, works and checks. It leaves no process behind.
func (r *run) run(ctx context.Context) (_ summary, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, stopAll(stopping, r.processes, drainTime))
	}()
	for n := range r.options.Workers {
		p, err := startWorker(r.options.worker, fmt.Sprintf("worker %d", n+1), r.url, r.namespace, fail)
		if err != nil {
			return summary{}, err
		}
		r.processes = append(r.processes, p)
	}

	r.begin = time.Now()
	feeding, stopFeeding := context.WithTimeout(ctx, feedTime)
	defer stopFeeding()
	working, stopWorking := context.WithTimeout(ctx, workTime)
	defer stopWorking()
	delivered := make(chan struct{})
	var helpers sync.WaitGroup
	defer func() {
		fail(nil) // where it has not ended yet, or failed
		helpers.Wait()
	}()
	helpers.Go(func() {
		defer close(delivered)
		r.produce(feeding)
	})
	helpers.Go(func() {
		if err := r.killOne(working); err != nil {
			fail(err)
		}
	})
	if err := r.watch(working, delivered); err != nil {
		return summary{}, err
	}
	if ctx.Err() != nil {
		return summary{}, context.Cause(ctx)
	}
	stopWorking()
	helpers.Wait()
	if err := stopAll(ctx, r.processes, drainTime); err != nil {
		return summary{}, err
	}
	if r.options.tamper != nil {
		if err := r.options.tamper(ctx, r.pool, r.namespace); err != nil {
			return summary{}, err
		}
	}
	return r.summarize(ctx)
}

func (r *run) spread() time.Duration {
	if r.options.Spread > 0 {
		return r.options.Spread
	}
	return min(max(time.Second*time.Duration(len(r.plan.deliveries))/perSecond, shortest), longest)
}

// watch shows what happens until all is delivered and settled, or ctx ends.
func (r *run) watch(ctx context.Context, delivered <-chan struct{}) error {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		over := false
		select {
		case <-delivered:
			over = true
		default:
		}
		tasks, err := readProgress(ctx, r.pool, r.namespace)
		if ctx.Err() != nil {
			return nil // interrupted, or the time is up: the check tells what is missing
		}
		if err != nil {
			return fmt.Errorf("look at the tasks: %w", err)
		}
		r.pending.Store(int64(tasks.pending()))
		r.mu.Lock()
		r.looks++
		r.seen = max(r.seen, tasks.Doubled)
		r.mu.Unlock()
		r.display.update(snapshot{
			elapsed: time.Since(r.begin), planned: len(r.plan.deliveries), counts: r.ledger.read(), tasks: tasks, workers: r.workers(),
		})
		if over && tasks.pending() == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (r *run) workers() []workerState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]workerState, 0, len(r.processes))
	for _, p := range r.processes {
		state := "works"
		if p.name == r.victim {
			state = fmt.Sprintf("killed, held %d", r.held)
		}
		states = append(states, workerState{p.name, state})
	}
	return states
}

// killOne makes the handlers of the second worker hang when a third is delivered, or a third of the time is up, and kills it when it holds tasks: as many as it
// can, or what there is after a while. ctx ends the attempt.
func (r *run) killOne(ctx context.Context) error {
	for r.ledger.read().Offered < len(r.plan.deliveries)/3 && time.Since(r.begin) < feedTime/3 {
		if !sleep(ctx, 10*time.Millisecond) {
			return nil
		}
	}
	p := r.processes[1]
	if err := p.order(orderHold); err != nil {
		return err
	}
	for looks := 0; sleep(ctx, 100*time.Millisecond); looks++ {
		held, err := heldBy(ctx, r.pool, r.namespace, p.name)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look what %s holds: %w", p.name, err)
		}
		if held == 0 || held < concurrency-looks/5 {
			continue
		}
		if err := p.kill(); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.victim, r.held = p.name, held
		return nil
	}
	return nil
}

func (r *run) summarize(ctx context.Context) (summary, error) {
	s, problems, err := check(ctx, r.pool, r.namespace, r.ledger)
	if err != nil {
		return summary{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.ledger.read()
	if r.seen > 0 {
		problems = append(problems, fmt.Sprintf("on the way, %d active keys had more than one pending task", r.seen))
	}
	return summary{
		Source: r.input.name, Lines: len(r.input.events), Skipped: r.input.skipped, Planned: len(r.plan.deliveries),
		Seconds: time.Since(r.begin).Seconds(), counts: c, Retried: s.Retried, Reaped: s.Reaped, Settled: s.settled(), Stored: s,
		Looks: r.looks, Killed: r.victim, Held: r.held, Texts: r.ledger.errorTexts(), Problems: problems, OK: len(problems) == 0,
	}, nil
}
