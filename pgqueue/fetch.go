package pgqueue

import (
	"context"
	"errors"
	"time"

	"github.com/pgqueue/pgqueue/gen"
)

// fetch claims tasks while there are free slots, never more than it can start at once, until ctx ends.
func (w *Worker) fetch(ctx context.Context, wake *wake) {
	looked := false // the last look found nothing
	more := false   // the last claim got all that it asked for
	failures := 0
	for {
		free := w.takeSlots(ctx, more)
		if free == 0 {
			return
		}
		busy := free < cap(w.slots) || w.outcomes.outstanding() > 0
		wake.reset()
		s := w.currentSession()
		tasks, err := w.claim(ctx, s, free)
		more = len(tasks) == free
		w.freeSlots(free - len(tasks))
		for _, task := range tasks {
			w.start(ctx, s, task)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoLease):
			// keepLeases opens one, and says why when it cannot.
			if !sleep(ctx, min(w.config.Lease/10, 100*time.Millisecond)) {
				return
			}
		case err != nil:
			failures++
			w.log.Warn("claim", "error", err)
			if !sleep(ctx, jitter(backoff(failures))) {
				return
			}
		case len(tasks) > 0:
			looked, failures = false, 0
		case !looked:
			// The claim has said that a worker waits here. Only what is enqueued after that was committed brings a notification, so
			// look once more.
			looked, failures = true, 0
		case w.config.ExitWhenEmpty && !busy:
			return
		case w.config.ExitWhenEmpty:
			// What runs may still enqueue, or fail and be due again.
			looked, failures = false, 0
			if !sleep(ctx, min(w.config.PollInterval, 20*time.Millisecond)) {
				return
			}
		default:
			failures = 0
			wake.wait(ctx, jitter(w.config.PollInterval))
		}
	}
}

// gatherTime is how long a claim may be put off so that it can be larger.
const gatherTime = 2 * time.Millisecond

// takeSlots waits for a free slot and takes all that are free. It returns 0 when ctx ends. A claim for one task costs nearly what one
// for a hundred does; so while there is more to claim it waits a moment, until half of all slots are free.
func (w *Worker) takeSlots(ctx context.Context, more bool) int {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1
	if more {
		timer := time.NewTimer(gatherTime)
		defer timer.Stop()
		for enough := false; !enough && n < cap(w.slots)/2; {
			select {
			case w.slots <- struct{}{}:
				n++
			case <-timer.C:
				enough = true
			case <-ctx.Done():
				w.freeSlots(n)
				return 0
			}
		}
	}
	for {
		select {
		case w.slots <- struct{}{}:
			n++
		default:
			return n
		}
	}
}

var errNoLease = errors.New("pgqueue: the worker has lost its lease and has no new one yet")

func (w *Worker) claim(ctx context.Context, s *session, most int) ([]gen.ClaimedTask, error) {
	if s == nil {
		return nil, errNoLease
	}
	p := gen.ClaimParams{LeaseID: s.lease, Queues: w.config.Queues, MaxTasks: &most, Namespace: &w.client.namespace}
	if !w.config.NoListen {
		wait := 3 * w.config.PollInterval
		p.WaitFor = &wait
	}
	// A claim that is broken off at the end of ctx may be committed all the same, so it is not broken off.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.Lease)
	defer cancel()
	begun := time.Now()
	tasks, err := call(ctx, w.client, func(db gen.DB) ([]gen.ClaimedTask, error) { return gen.Claim(ctx, db, p) })
	if claimed := w.client.hooks.Claimed; claimed != nil {
		claimed(ctx, w.config.Name, len(tasks), time.Since(begun), err)
	}
	switch {
	case errors.Is(err, ErrInvalidState):
		w.loseSession(s)
	case err != nil:
		w.retire(s)
	}
	return tasks, err
}

func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures-1, 10), 10*time.Second)
}
