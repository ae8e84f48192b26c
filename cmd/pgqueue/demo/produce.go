package demo

import (
	"context"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The demo's tasks are short, so it waits less before it tries again and before it gives a silent worker up than a service would.
const (
	window      = time.Hour
	maxAttempts = 20
	backoff     = 200 * time.Millisecond
	maxBackoff  = time.Second
	queue       = "default"
)

const (
	// mostPending is the backlog at which producers wait for the workers, so that the demo ends in time with any input.
	mostPending = 1000
	// callTimeout bounds one enqueue, on a server that does not answer any more.
	callTimeout = 10 * time.Second
)

// produce delivers the plan with all producers at once, spread evenly over the time. It stops early when ctx ends, and no call is
// broken off: its outcome would be unknown.
func (r *run) produce(ctx context.Context) {
	begin, all, spread := time.Now(), r.plan.deliveries, r.spread()
	var group sync.WaitGroup
	for n := range r.options.Producers {
		group.Go(func() {
			for i, d := range all {
				if d.producer != n {
					continue
				}
				due := begin.Add(spread * time.Duration(i) / time.Duration(len(all)))
				if !sleep(ctx, time.Until(due)) {
					return
				}
				for r.pending.Load() > mostPending {
					if !sleep(ctx, 10*time.Millisecond) {
						return
					}
				}
				r.ledger.offer()
				calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
				receipt, err := r.client.Enqueue(calling, request(r.input.task, d))
				cancel()
				r.ledger.record(d, receipt, err)
			}
		})
	}
	group.Wait()
}

func request(task string, d delivery) pgqueue.Request {
	r := pgqueue.Request{
		TaskName: task, Payload: d.payload, Queue: queue, ActiveKey: d.activeKey, WindowKey: d.windowKey,
		MaxAttempts: maxAttempts, Backoff: backoff, MaxBackoff: maxBackoff,
	}
	if d.windowKey != "" {
		r.Window = window
	}
	// Without any key the whole payload is the key.
	r.Unique = d.activeKey == "" && d.windowKey == ""
	return r
}

// sleep tells whether ctx still lives after d.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
