package integration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// B4, case_C45: sessions with batches of the same keys in opposite orders, set-based, through windows and of declared types, while
// workers make the keys stale and free. A deadlock would surface as an error.
func TestB4_Case_C45_OppositeOrders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "select pgqueue.declare_task('declared', active_key_selector => '$.id', namespace => $1::text)", e.ns)
	const sessions, rounds, keys = 8, 100, 6
	batchOf := func(session, round int) []batchItem {
		var all []batchItem
		for i := range keys {
			item := batchItem{request: e.active(fmt.Sprint(i))}
			switch kind := (session/2 + round) % 4; {
			case kind == 1:
				item.WindowKey, item.WindowLength = ptr(fmt.Sprint(round, i)), ptr(time.Hour)
			case kind == 2 && i%2 == 0:
				item = batchItem{request: request{TaskName: "declared", Payload: []byte(fmt.Sprintf(`{"id": %d}`, i))}}
			}
			all = append(all, item)
		}
		if session%2 == 1 {
			slices.Reverse(all)
		}
		return all
	}
	var all sync.WaitGroup
	created, reused := make([]int, sessions), make([]int, sessions)
	for session := range sessions {
		conn := e.session(t, readCommitted)
		all.Go(func() {
			for round := range rounds {
				got, err := gen.EnqueueMany(t.Context(), conn, e.batch(batchOf(session, round), continueOnConflict))
				if err != nil || len(got) != keys {
					t.Errorf("session %d, round %d: %d receipts, %v", session, round, len(got), err)
					return
				}
				for _, r := range got {
					switch r.Disposition {
					case gen.DispositionCreated:
						created[session]++
					case gen.DispositionReused:
						reused[session]++
					default:
						// An open window of an earlier round's holder beside a newer holder of the active key.
						if *r.ErrorCode != "PQ002" && *r.ErrorCode != "PQ001" {
							t.Errorf("session %d, round %d: %s", session, round, show(r))
						}
					}
				}
			}
		})
	}
	over, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for worker := range 2 {
		conn := e.session(t, readCommitted)
		workers.Go(func() { e.settleAll(t, over, conn, worker) })
	}
	all.Wait()
	stop()
	workers.Wait()
	for session := range sessions {
		if created[session]+reused[session] == 0 {
			t.Errorf("session %d got no task at all", session)
		}
	}
	checkInvariants(t, e.pool)
}

// settleAll finishes every other task and discards the rest, so that keys come free as rows that are gone and as stale ones.
func (e *env) settleAll(t *testing.T, over context.Context, conn *pgx.Conn, worker int) {
	ctx := context.WithoutCancel(over)
	lease, err := gen.OpenLease(ctx, conn, gen.OpenLeaseParams{Worker: fmt.Sprint(worker), Namespace: &e.ns})
	for i := 0; err == nil && over.Err() == nil; i++ {
		var claimed []gen.ClaimedTask
		claimed, err = gen.Claim(ctx, conn, gen.ClaimParams{LeaseID: lease, MaxTasks: ptr(2), Namespace: &e.ns})
		for j, task := range claimed {
			if err == nil && (i+j)%2 == 0 {
				_, err = gen.Complete(ctx, conn, gen.CompleteParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Namespace: &e.ns})
			} else if err == nil {
				_, err = gen.Fail(ctx, conn, gen.FailParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Error: "boom", Discard: ptr(true), Namespace: &e.ns})
			}
		}
		if err == nil && i%8 == 0 {
			_, err = gen.ReleaseStale(ctx, conn, gen.ReleaseStaleParams{Namespace: &e.ns})
		}
	}
	if err != nil {
		t.Errorf("worker %d: %v", worker, err)
	}
}

// batchAnswer is what came of a batch that ran beside the test.
type batchAnswer struct {
	receipts []gen.Receipt
	err      error
}

// sendBatch starts a batch and returns when it waits for a lock.
func (e *env) sendBatch(t *testing.T, conn *pgx.Conn, all []batchItem) <-chan batchAnswer {
	t.Helper()
	done := make(chan batchAnswer, 1)
	ctx := t.Context()
	go func() {
		receipts, err := gen.EnqueueMany(ctx, conn, e.batch(all))
		done <- batchAnswer{receipts, err}
	}()
	pgtest.WaitBlocked(t, e.pool, conn.PgConn().PID())
	return done
}

// B4: a batch that lost a race for one key, whose holder is then gone, comes back for that key while it has higher ones already.
// It must not wait there for a batch that waits for it.
func TestB4_ComesBackForALowerKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	keys := keysInOrder(t, e.pool, 3)
	low, middle, high := keys[0], keys[1], keys[2]
	e.discard(t, e.pool, e.create(t, e.active(low)))

	holdsHigh, holdsMiddle := e.session(t, readCommitted), e.session(t, readCommitted)
	for conn, key := range map[*pgx.Conn]string{holdsHigh: high, holdsMiddle: middle} {
		exec(t, conn, "begin")
		wantCreated(t, enqueue(t, conn, e.active(key)))
	}
	one, two := e.session(t, readCommitted), e.session(t, readCommitted)
	first := e.sendBatch(t, one, e.actives(high, low))
	exec(t, e.pool, "select pgqueue.release_stale(namespace => $1::text)", e.ns)
	second := e.sendBatch(t, two, e.actives(low, middle, high))
	exec(t, holdsHigh, "rollback")
	// Now the first has the high key. Had it passed the low one by, it would want that, which the second has.
	for {
		look, err := pgtest.Look(t.Context(), e.pool, one.PgConn().PID())
		if err != nil {
			t.Fatal(err)
		}
		if look.Idle() || look.Blocked && !slices.Contains(look.BlockedBy, holdsHigh.PgConn().PID()) {
			break
		}
	}
	exec(t, holdsMiddle, "rollback")
	for name, done := range map[string]<-chan batchAnswer{"first": first, "second": second} {
		if got := wait(t, done); got.err != nil {
			t.Errorf("the %s batch: %v", name, got.err)
		}
	}
	if n := e.tasks(t); n != 4 {
		t.Errorf("%d tasks, want the discarded one and three", n)
	}
	checkInvariants(t, e.pool)
}
