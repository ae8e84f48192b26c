package hammer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
)

func (r *run) anyKey() string { return fmt.Sprint("key ", rand.IntN(r.options.Keys)) }

// declared is a type whose batches take the exact path, because its keys are not known beforehand.
var declared = pgqueue.Define("hammer.declared", pgqueue.TaskOptions[string]{UniquePayload: true})

// produceBatches enqueues batches of all keys: every other session from the last on, and by turns with active keys alone, with
// window keys beside some of them, and of a declared type.
func (r *run) produceBatches(ctx context.Context, session int, l *ledger) {
	for round := range r.options.Rounds {
		if ctx.Err() != nil {
			return
		}
		requests, keys := r.batch(session, round)
		l.batches++
		l.calls += len(requests)
		outcomes, err := r.client.EnqueueMany(context.WithoutCancel(ctx), requests, pgqueue.BatchOptions{ContinueOnConflict: true})
		if err != nil {
			r.fail(fmt.Errorf("session %d, round %d: %w", session, round, err))
			continue
		}
		if len(outcomes) != len(requests) {
			r.violation("session %d, round %d: %d items have %d outcomes", session, round, len(requests), len(outcomes))
			continue
		}
		for i, o := range outcomes {
			switch {
			case errors.Is(o.Err, pgqueue.ErrCompositionConflict):
				l.refused++ // the window of an earlier task beside the next holder of the active key
			case o.Err != nil:
				r.fail(fmt.Errorf("session %d, round %d, item %d: %w", session, round, i+1, o.Err))
			case o.TaskID == uuid.Nil:
				r.violation("session %d, round %d, item %d: the outcome has no id: %+v", session, round, i+1, o)
			default:
				l.note(o.TaskID, keys[i], o.Created())
			}
		}
	}
}

func (r *run) batch(session, round int) (requests []pgqueue.Request, keys []string) {
	order := make([]int, r.options.Keys)
	for i := range order {
		order[i] = i
	}
	if session%2 == 1 {
		slices.Reverse(order)
	}
	for _, n := range order {
		key := fmt.Sprint("key ", n)
		request := pgqueue.Request{TaskName: "hammer", ActiveKey: key, Payload: quote(key)}
		switch kind := (session/2 + round) % 4; {
		case kind == 1 && n%2 == 0:
			request.WindowKey, request.Window = fmt.Sprint(key, " in round ", round), time.Hour
		case kind == 2 && n%2 == 0:
			key += " declared"
			request = pgqueue.Request{TaskName: declared.Name(), Payload: quote(key)}
		}
		requests, keys = append(requests, request), append(keys, key)
	}
	return requests, keys
}

// work settles tasks in all the ways, until over is done; then it settles what is left. Failed tasks leave their keys as stale rows,
// completed ones free them.
func (r *run) work(ctx, over context.Context, number int) {
	lease, err := gen.OpenLease(ctx, r.pool, gen.OpenLeaseParams{Worker: fmt.Sprint("hammer ", number), Length: length(leaseLength), Namespace: &r.namespace})
	if err != nil {
		r.fail(err)
		return
	}
	most := 2
	for i := 0; ctx.Err() == nil; i++ {
		last := over.Err() != nil
		claimed, err := gen.Claim(ctx, r.pool, gen.ClaimParams{LeaseID: lease, MaxTasks: &most, Namespace: &r.namespace})
		if err != nil {
			r.fail(err)
			return
		}
		for _, task := range claimed {
			r.hold(task)
		}
		for _, task := range claimed {
			if err := r.settle(ctx, task); err != nil {
				r.fail(err)
			}
		}
		if number == 0 && i%50 == 0 {
			if err := r.empty(ctx); err != nil {
				r.fail(err)
			}
		}
		if len(claimed) == 0 && last {
			break
		}
	}
	if _, err := gen.CloseLease(context.WithoutCancel(ctx), r.pool, gen.CloseLeaseParams{LeaseID: lease, Namespace: &r.namespace}); err != nil {
		r.fail(err)
	}
}

func quote(key string) json.RawMessage {
	text, err := json.Marshal(key)
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// hold notes that a worker has a task of the key. It is no lock of ours: another one at the same time is what must not be.
func (r *run) hold(task gen.ClaimedTask) {
	key := string(task.Payload)
	if other, held := r.held.Swap(key, task.ID); held {
		r.violation("key %s: task %s runs, and task %s of the same key was claimed", key, other, task.ID)
	}
}

func (r *run) settle(ctx context.Context, task gen.ClaimedTask) error {
	r.held.CompareAndDelete(string(task.Payload), task.ID)
	var result gen.WriteResult
	var err error
	switch rand.IntN(3) {
	case 0, 1:
		result, err = gen.Complete(ctx, r.pool, gen.CompleteParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Namespace: &r.namespace})
	default:
		yes := true
		var failure gen.Failure
		failure, err = gen.Fail(ctx, r.pool, gen.FailParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Error: "hammer", Discard: &yes, Namespace: &r.namespace})
		result = failure.Result
	}
	if err == nil && result != gen.WriteResultOK {
		r.violation("task %s was taken from its worker", task.ID)
	}
	r.mu.Lock()
	r.summary.Settled++
	r.mu.Unlock()
	return err
}

// empty deletes what is settled, so that the checks stay quick, and stale keys with it.
func (r *run) empty(ctx context.Context) error {
	for {
		pruned, err := gen.Prune(ctx, r.pool, gen.PruneParams{
			Retention: length(0), DiscardedRetention: length(0), FailedRetention: length(0), LostRetention: length(0), Namespace: &r.namespace})
		if err != nil || pruned.Tasks == 0 {
			return err
		}
	}
}

func length(d time.Duration) *time.Duration { return &d }
