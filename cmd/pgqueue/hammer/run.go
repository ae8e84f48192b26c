package hammer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// run is a run under way.
type run struct {
	options   Options
	pool      *pgxpool.Pool
	client    *pgqueue.Client
	namespace string

	mu       sync.Mutex
	summary  summary
	problems []string
	found    int
	// Tasks by the key that they were created or found with.
	created, reused map[pgqueue.TaskID]string
	// held has the tasks that workers are at, by their payload, which is the key: what is pending without a doubt, by other eyes
	// than the gate's.
	held sync.Map
	stop func() // ends the enqueues
}

func (r *run) problem(format string, args ...any) {
	if r.found++; len(r.problems) < mostShown {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
	if r.options.FailFast {
		r.stop()
	}
}

func (r *run) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Violations++
	r.problem("violation: "+format, args...)
}

// fail counts an error that must not be.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "40P01" {
		r.summary.Deadlocks++
	} else {
		r.summary.Errors++
	}
	r.problem("error: %v", err)
}

// run lets all sessions loose, and looks at what is left when they are done and the workers have settled everything.
func (r *run) run(ctx context.Context) error {
	if r.options.Batches {
		if err := r.client.Register(ctx, declared); err != nil {
			return err
		}
	}
	begin := time.Now()
	producing, stopProducing := context.WithCancel(ctx)
	defer stopProducing()
	if !r.options.Batches {
		producing, stopProducing = context.WithTimeout(ctx, r.options.Duration)
		defer stopProducing()
	}
	r.stop = stopProducing
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	var producers, workers sync.WaitGroup
	for n := range r.options.Sessions {
		producers.Go(func() {
			l := &ledger{created: map[pgqueue.TaskID]string{}, reused: map[pgqueue.TaskID]string{}}
			if r.options.Batches {
				r.produceBatches(producing, n, l)
			} else {
				r.produce(producing, l)
			}
			r.add(l)
		})
	}
	for n := range r.options.Workers {
		workers.Go(func() { r.work(ctx, working, n) })
	}
	workers.Go(func() { r.watch(working) })
	producers.Wait()
	r.mu.Lock()
	r.summary.Seconds = time.Since(begin).Seconds()
	r.mu.Unlock()
	stopWorking()
	workers.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	r.invariants(ctx)
	return r.reconcile(ctx)
}

// watch looks for broken rows while all are at it.
func (r *run) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.invariants(ctx)
		}
	}
}

// ledger is what one session was told.
type ledger struct {
	batches, calls, createdCount, reusedCount, refused int
	created, reused                                    map[pgqueue.TaskID]string
}

func (l *ledger) note(id pgqueue.TaskID, key string, created bool) {
	if created {
		l.createdCount++
		l.created[id] = key
	} else {
		l.reusedCount++
		l.reused[id] = key
	}
}

func (r *run) add(l *ledger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Batches += l.batches
	r.summary.Calls += l.calls
	r.summary.Created += l.createdCount
	r.summary.Reused += l.reusedCount
	r.summary.Refused += l.refused
	for id := range l.created {
		if _, twice := r.created[id]; twice {
			r.summary.Violations++
			r.problem("violation: task %s was created twice", id)
		}
	}
	maps.Copy(r.created, l.created)
	maps.Copy(r.reused, l.reused)
}

// reconcile compares the answers with each other, and their number with that of the tasks.
func (r *run) reconcile(ctx context.Context) error {
	for id, key := range r.reused {
		if made, known := r.created[id]; !known {
			r.violation("task %s was answered for key %s, and nobody created it", id, key)
		} else if made != key {
			r.violation("task %s was created with key %s and answered for key %s", id, made, key)
		}
	}
	stats, err := r.client.Stats(ctx)
	if err != nil {
		return err
	}
	stored := int64(r.summary.Settled)
	for _, s := range stats {
		stored += s.Ready + s.Scheduled + s.Running
	}
	if n := len(r.created); n != r.summary.Created || stored != int64(n) {
		r.violation("%d answers tell of %d created tasks, the database has had %d", r.summary.Created, n, stored)
	}
	if told := r.summary.Created + r.summary.Reused + r.summary.Refused; told+r.summary.Errors+r.summary.Deadlocks < r.summary.Calls && !r.options.Batches {
		r.violation("%d calls have %d answers", r.summary.Calls, told)
	}
	return nil
}

// produce enqueues one key after the other. Every call must answer with one row that has an id.
func (r *run) produce(ctx context.Context, l *ledger) {
	// The last call may outlive the time.
	calling := context.WithoutCancel(ctx)
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		r.fail(err)
		return
	}
	defer conn.Release()
	for ctx.Err() == nil {
		key := r.anyKey()
		l.calls++
		payload := quote(key)
		before, held := r.held.Load(string(payload))
		got, err := gen.EnqueueUnique(calling, conn, gen.EnqueueUniqueParams{TaskName: "hammer", Payload: payload, ActiveKey: &key, Namespace: &r.namespace})
		after, still := r.held.Load(string(payload))
		switch {
		case err != nil:
			r.fail(err)
		case got.TaskID == nil:
			r.violation("key %s: the answer has no id: %+v", key, got)
		default:
			l.note(*got.TaskID, key, got.Disposition == pgqueue.Created)
			if held && still && before == after && *got.TaskID != before {
				r.violation("key %s: task %s ran all the time, and the answer was %s", key, before, *got.TaskID)
			}
		}
	}
}
