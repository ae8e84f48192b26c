package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	window      = 24 * time.Hour
	callTimeout = 3 * time.Second
	maxPending  = 4000
)

// request is one thing that a producer wants to have enqueued, once.
type request struct {
	work        work
	maxAttempts int
}

func (r *request) make() (pgqueue.Request, error) {
	payload, err := json.Marshal(r.work)
	q := pgqueue.Request{
		TaskName: jobType.Name(), Payload: payload, ActiveKey: r.work.Active, WindowKey: r.work.Window, MaxAttempts: r.maxAttempts,
		Backoff: 100 * time.Millisecond, MaxBackoff: 500 * time.Millisecond,
	}
	if r.work.Window != "" {
		q.Window = window
	}
	return q, err
}

// requests makes the requests of all producers.
type requests struct {
	last atomic.Int64

	mu     sync.Mutex
	recent []*request // with window keys, to be delivered again
}

const recent = 2000

func (q *requests) next(random *rand.Rand) *request {
	if random.IntN(100) < 12 {
		if old := q.again(random); old != nil {
			return old
		}
	}
	r := q.fresh(random)
	kind := random.IntN(100)
	if kind < 70 {
		r.work.Window = fmt.Sprintf("request-%d", r.work.Request)
	}
	if kind >= 35 {
		r.work.Active = fmt.Sprintf("item-%d", random.IntN(50000))
		if random.IntN(100) < 8 {
			r.work.Active = fmt.Sprintf("hot-%d", random.IntN(20))
		}
	}
	if r.work.Window != "" {
		q.remember(r)
	}
	return r
}

// fresh makes a request without keys: what its handler will do.
func (q *requests) fresh(random *rand.Rand) *request {
	r := &request{work: work{Request: int(q.last.Add(1)), Milliseconds: random.IntN(4)}, maxAttempts: 10}
	switch n := random.IntN(1000); {
	case n < 15:
		r.work.Milliseconds, r.work.Deaf = 1000+random.IntN(2000), random.IntN(5) < 2
	case n < 70:
		r.work.Milliseconds = 50 + random.IntN(350)
	}
	switch n := random.IntN(1000); {
	case n < 40:
		r.work.Failures = 1
	case n < 50:
		r.work.Failures = 2
	case n < 55:
		r.work.Failures, r.maxAttempts = 2, 2
	case n < 65:
		r.work.Snooze = true
	case n < 85: // cannot be given to another worker when its own is lost
		r.work.Milliseconds, r.maxAttempts, r.work.Deaf = 300+random.IntN(2500), 1, random.IntN(2) == 0
	}
	return r
}

func (q *requests) remember(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.recent) < recent {
		q.recent = append(q.recent, r)
	} else {
		q.recent[r.work.Request%recent] = r
	}
}

// again returns a request that some producer made before, now and then with another content.
func (q *requests) again(random *rand.Rand) *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.recent) == 0 {
		return nil
	}
	r := *q.recent[random.IntN(len(q.recent))]
	r.work.Changed = r.work.Changed || random.IntN(100) < 10
	return &r
}

// producer delivers requests, and each until it has an answer.
type producer struct {
	name   string
	client *pgqueue.Client
	pool   *pgxpool.Pool
	ledger *ledger
	source *requests
	random *rand.Rand
}

// produce delivers until the phase is over.
func (p *producer) produce(ctx context.Context, ph *phase) error {
	for ph.allow(ctx) {
		size := 1
		if p.random.IntN(100) < 50 {
			size = 5 + p.random.IntN(36)
		}
		batch := make([]*request, size)
		for i := range batch {
			batch[i] = p.source.next(p.random)
		}
		if _, err := p.deliver(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends requests again and again until all are answered, and returns the last answers. An error ends the run.
func (p *producer) deliver(ctx context.Context, open []*request) (answers []pgqueue.Outcome, err error) {
	p.ledger.offer(len(open))
	for len(open) > 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var maybe bool
		answers, maybe, err = p.send(ctx, open)
		if err != nil {
			p.ledger.noAnswer(open, maybe)
			sleep(ctx, time.Duration(30+p.random.IntN(100))*time.Millisecond)
		}
		var left []*request
		for i, r := range open {
			if err != nil || !p.ledger.answer(r, answers[i]) {
				left = append(left, p.later(r))
			}
		}
		open = left
	}
	return answers, nil
}

// later is the request for its next try. Under a window key it is the same; with an active key alone the payload tells the tries
// apart, because each of them may have made a task.
func (p *producer) later(r *request) *request {
	if r.work.Window != "" {
		return r
	}
	next := *r
	next.work.Try++
	return &next
}

// send makes one call. An error is the end of a call without an answer; maybe tells that it may have been committed.
func (p *producer) send(ctx context.Context, batch []*request) (answers []pgqueue.Outcome, maybe bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	calls := make([]pgqueue.Request, len(batch))
	for i, r := range batch {
		if calls[i], err = r.make(); err != nil {
			return nil, false, err
		}
	}
	if len(batch) > 1 {
		answers, err = p.client.EnqueueMany(ctx, calls, pgqueue.BatchOptions{ContinueOnConflict: true})
		return answers, mayHaveBeenCommitted(err), err
	}
	var receipt pgqueue.Receipt
	if p.random.IntN(3) == 0 {
		receipt, maybe, err = p.sendTx(ctx, calls[0])
	} else {
		receipt, err = p.client.Enqueue(ctx, calls[0])
		maybe = mayHaveBeenCommitted(err)
	}
	var refused *pgqueue.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, maybe, err
	}
	return []pgqueue.Outcome{{Receipt: receipt, Err: err}}, false, nil
}

func (p *producer) sendTx(ctx context.Context, call pgqueue.Request) (receipt pgqueue.Receipt, maybe bool, err error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return receipt, false, err
	}
	defer rollback(ctx, tx)
	if receipt, err = p.client.EnqueueTx(ctx, tx, call); err != nil {
		return receipt, false, err
	}
	return receipt, true, tx.Commit(ctx)
}

// rollback ends a transaction that may have ended already, on a connection that may be dead.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // a connection that fails here is closed, which rolls back too
}

// mayHaveBeenCommitted is false only where the call cannot have reached the server, or the server has refused it.
func mayHaveBeenCommitted(err error) bool {
	var connecting *pgconn.ConnectError
	var server *pgconn.PgError
	switch {
	case err == nil || pgconn.SafeToRetry(err) || errors.As(err, &connecting):
		return false
	case errors.As(err, &server):
		return server.Severity != "ERROR"
	}
	return true
}
