package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// outcome is what came of one execution.
type outcome struct {
	session *session
	execution
	result json.RawMessage

	failed     bool
	snooze     *time.Duration
	text       string
	trace      string
	retryAfter *time.Duration
	discard    bool
	// completed tells that CompleteTx has written the outcome, if the handler's transaction was committed. Then this one is refused.
	completed bool
}

func (o *outcome) setError(err, cause error, trace string) {
	var s snooze
	if errors.As(err, &s) {
		o.snooze = &s.delay
		return
	}
	o.failed, o.text, o.trace = true, err.Error(), trace
	if errors.Is(cause, ErrTimeout) || errors.Is(cause, ErrCancelled) {
		o.text = cause.Error() + ": " + o.text
	}
	var r retryAfter
	if errors.As(err, &r) {
		o.retryAfter = &r.delay
	}
	var d discard
	o.discard = errors.As(err, &d)
}

// maxOutcomes is how many successful executions one statement writes.
const maxOutcomes = 1000

// outcomes collects what executions end with, and writes successes together: all that came in while the last write was under way.
type outcomes struct {
	w       *Worker
	pending chan outcome
	ended   chan struct{} // closed when nothing is written any more
	count   atomic.Int64
}

func newOutcomes(w *Worker) *outcomes {
	return &outcomes{w: w, pending: make(chan outcome, maxOutcomes), ended: make(chan struct{})}
}

func (o *outcomes) add(result outcome) {
	o.count.Add(1)
	select {
	case o.pending <- result:
	case <-o.ended: // an execution that was left behind
	}
}

// outstanding is how many outcomes are not written yet.
func (o *outcomes) outstanding() int64 { return o.count.Load() }

// close makes write return when all that was added before is written. Executions that were left behind may still add, so the
// channel stays open and an outcome without a session marks the end.
func (o *outcomes) close() { o.pending <- outcome{} }

// write writes outcomes until close.
func (o *outcomes) write(ctx context.Context) {
	defer close(o.ended)
	for end := false; !end; {
		var batch, done, failed []outcome
		batch, end = o.collect()
		for _, b := range batch {
			switch {
			case b.snooze != nil:
				o.persist(ctx, []outcome{b}, func() error { return o.writeSnooze(ctx, b) })
			case b.failed:
				failed = append(failed, b)
			default:
				done = append(done, b)
			}
		}
		if len(done) > 0 {
			o.persist(ctx, done, func() error { return o.complete(ctx, done) })
		}
		if len(failed) > 0 {
			o.persist(ctx, failed, func() error { return o.fail(ctx, failed) })
		}
	}
}

// outcomeDelay is how long an outcome waits for others, to be written with them.
const outcomeDelay = time.Millisecond

// collect waits for an outcome and takes what else comes in a moment.
func (o *outcomes) collect() (batch []outcome, end bool) {
	next := <-o.pending
	timer := time.NewTimer(outcomeDelay)
	defer timer.Stop()
	for next.session != nil {
		batch = append(batch, next)
		if len(batch) == maxOutcomes {
			return batch, false
		}
		select {
		case next = <-o.pending:
		case <-timer.C:
			return batch, false
		}
	}
	return batch, true
}

// persist repeats a write until it goes through, or could no longer count: after a lease's length without contact the tasks are
// others'. A repeated write is harmless: it leaves alone what it finds settled.
func (o *outcomes) persist(ctx context.Context, batch []outcome, write func() error) {
	began := time.Now()
	for failures := 1; ; failures++ {
		tried := time.Now()
		err := write()
		if written := o.w.client.hooks.Written; written != nil {
			written(ctx, o.w.config.Name, len(batch), time.Since(tried), err)
		}
		if err == nil {
			break
		}
		if errors.Is(err, ErrInvalidArgument) || time.Since(began) > o.w.config.Lease || !sleep(ctx, jitter(backoff(failures))) {
			o.w.log.Error("outcomes not written, their tasks will run again", "tasks", len(batch), "error", err)
			for _, b := range batch {
				o.w.retire(b.session)
			}
			break
		}
		o.w.log.Warn("write outcomes", "error", err)
	}
	for _, b := range batch {
		o.w.settle(b.session, b.execution)
	}
	o.count.Add(-int64(len(batch)))
}

func (o *outcomes) complete(ctx context.Context, done []outcome) error {
	ctx, cancel := context.WithTimeout(ctx, o.w.config.Lease)
	defer cancel()
	p := gen.CompleteManyParams{TaskIDs: make([]uuid.UUID, len(done)), LeaseNumbers: make([]int, len(done)), Namespace: &o.w.client.namespace}
	for i, d := range done {
		p.TaskIDs[i], p.LeaseNumbers[i] = d.id, d.number
		if d.result != nil && p.Results == nil {
			p.Results = make([]json.RawMessage, len(done))
		}
	}
	for i := range p.Results {
		p.Results[i] = done[i].result
	}
	lost, err := call(ctx, o.w.client, func(db gen.DB) ([]uuid.UUID, error) { return gen.CompleteMany(ctx, db, p) })
	for _, id := range lost {
		o.w.log.Warn("outcome not written: the lease was lost", "task", id)
	}
	return err
}

func (o *outcomes) fail(ctx context.Context, failed []outcome) error {
	ctx, cancel := context.WithTimeout(ctx, o.w.config.Lease)
	defer cancel()
	p := gen.FailManyParams{Namespace: &o.w.client.namespace}
	for _, f := range failed {
		p.TaskIDs = append(p.TaskIDs, f.id)
		p.LeaseNumbers = append(p.LeaseNumbers, f.number)
		p.Errors = append(p.Errors, cleanText(f.text))
		p.ErrorTraces = append(p.ErrorTraces, cleanText(f.trace))
		p.RetryAfter = append(p.RetryAfter, f.retryAfter)
		p.Discard = append(p.Discard, f.discard)
	}
	written, err := call(ctx, o.w.client, func(db gen.DB) ([]gen.Failure, error) { return gen.FailMany(ctx, db, p) })
	for i, f := range written {
		if f.Result == gen.WriteResultLeaseLost && !failed[i].completed {
			o.w.log.Warn("outcome not written: the lease was lost", "task", f.TaskID)
		}
	}
	return err
}

func (o *outcomes) writeSnooze(ctx context.Context, s outcome) error {
	ctx, cancel := context.WithTimeout(ctx, o.w.config.Lease)
	defer cancel()
	written, err := call(ctx, o.w.client, func(db gen.DB) (gen.WriteResult, error) {
		return gen.Snooze(ctx, db, gen.SnoozeParams{TaskID: s.id, LeaseNumber: s.number, Delay: *s.snooze, Namespace: &o.w.client.namespace})
	})
	if err == nil && written == gen.WriteResultLeaseLost {
		o.w.log.Warn("outcome not written: the lease was lost", "task", s.id)
	}
	return err
}
