package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// traffic is producers and workers that meet on a few keys.
type traffic struct {
	e       *env
	keys    int
	calls   int // of each producer at least; all go on until some keys have been free again
	request func(key int) request

	mu      sync.Mutex
	created map[uuid.UUID]int // task to key
	reused  map[uuid.UUID]int
	races   int
	asked   int
	over    atomic.Bool // the producers are done
}

// A1, A10, A11, A18, case_C04: 16 producers on 10 keys while workers claim, complete and fail: every call answers with exactly
// one row that has an id, no two pending tasks share a key, and the numbers add up.
func TestA1_A10_A18_ProducersAndWorkers(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, kind := range []string{"active", "window and active"} {
			t.Run(level+"/"+kind, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				tr := &traffic{e: e, keys: 10, calls: 40, created: map[uuid.UUID]int{}, reused: map[uuid.UUID]int{}}
				tr.request = func(key int) request { return e.active(fmt.Sprint(key)) }
				if kind != "active" {
					// Windows that end while the race runs.
					tr.request = func(key int) request {
						r := e.window(fmt.Sprint(key), 3*time.Millisecond)
						r.ActiveKey = ptr(fmt.Sprint(key))
						return r
					}
				}
				tr.run(t, level)
			})
		}
	}
}

func (tr *traffic) run(t *testing.T, level string) {
	t.Helper()
	var producers, workers sync.WaitGroup
	for range 16 {
		conn := tr.e.session(t, level)
		producers.Go(func() { tr.produce(t, conn, level) })
	}
	for i := range 3 {
		conn := tr.e.session(t, readCommitted)
		workers.Go(func() { tr.work(t, conn, i) })
	}
	producers.Wait()
	tr.over.Store(true)
	workers.Wait()
	if t.Failed() {
		return
	}
	checkInvariants(t, tr.e.pool)

	calls := len(tr.created) + tr.races
	for id, times := range tr.reused {
		calls += times
		if _, known := tr.created[id]; !known {
			t.Errorf("task %s was answered and never created", id)
		}
	}
	if calls != tr.asked {
		t.Errorf("%d answers to %d calls", calls, tr.asked)
	}
	if n := tr.e.tasks(t); n != len(tr.created) {
		t.Errorf("%d tasks are stored, %d were created", n, len(tr.created))
	}
	if level == readCommitted && tr.races > 0 {
		t.Errorf("%d races at READ COMMITTED", tr.races)
	}
	if !tr.raced() {
		t.Errorf("%d created, %d reused: no race took place", len(tr.created), len(tr.reused))
	}
}

// raced: keys were taken over, and held.
func (tr *traffic) raced() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.created) > tr.keys && len(tr.reused) > 0
}

func (tr *traffic) produce(t *testing.T, conn *pgx.Conn, level string) {
	deadline := time.Now().Add(10 * time.Second)
	for n := 0; n < tr.calls || !tr.raced() && time.Now().Before(deadline); n++ {
		key := rand.IntN(tr.keys)
		got, err := gen.EnqueueUnique(t.Context(), conn, tr.request(key))
		tr.mu.Lock()
		tr.asked++
		switch {
		case err != nil && level != readCommitted && isRace(err):
			tr.races++
		case err != nil || got.TaskID == nil:
			t.Errorf("key %d: %s, %v", key, show(got), err)
		case got.Disposition == gen.DispositionCreated:
			tr.created[*got.TaskID] = key
		default:
			tr.reused[*got.TaskID]++
		}
		tr.mu.Unlock()
	}
}

// isRace knows the race error, and the plain one with which SERIALIZABLE ends a transaction at its commit.
func isRace(err error) bool {
	state, ok := err.(interface{ SQLState() string })
	return ok && state.SQLState() == "40001"
}

func (tr *traffic) work(t *testing.T, conn *pgx.Conn, number int) {
	ctx := context.WithoutCancel(t.Context())
	lease, err := gen.OpenLease(ctx, conn, gen.OpenLeaseParams{Worker: fmt.Sprint(number), Namespace: &tr.e.ns})
	if err != nil {
		t.Error(err)
		return
	}
	for !tr.over.Load() {
		claimed, err := gen.Claim(ctx, conn, gen.ClaimParams{LeaseID: lease, MaxTasks: ptr(3), Namespace: &tr.e.ns})
		if err != nil {
			t.Error(err)
			return
		}
		for i, task := range claimed {
			if (i+number)%2 == 0 {
				_, err = gen.Complete(ctx, conn, gen.CompleteParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Namespace: &tr.e.ns})
			} else {
				_, err = gen.Fail(ctx, conn, gen.FailParams{TaskID: task.ID, LeaseNumber: task.LeaseNumber, Error: "boom", Discard: ptr(true), Namespace: &tr.e.ns})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		if number == 0 {
			if _, err := gen.ReleaseStale(ctx, conn, gen.ReleaseStaleParams{MaxKeys: ptr(3), Namespace: &tr.e.ns}); err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// A14, A18, L7: operators retry settled tasks while producers take their keys over and workers finish them.
func TestA14_A18_OperatorsAmongProducers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const keys = 4
	var all sync.WaitGroup
	for producer := range 6 {
		conn := e.session(t, readCommitted)
		all.Go(func() {
			for i := range 60 {
				if _, err := gen.EnqueueUnique(t.Context(), conn, e.active(fmt.Sprint((i+producer)%keys))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		conn := e.session(t, readCommitted)
		all.Go(func() {
			for range 60 {
				// Any task: one in the wrong state answers PQ009, one that is pending is closed.
				if _, err := conn.Exec(t.Context(), `do $$
					declare v_id uuid; v_status pgqueue.task_status;
					begin
						select id, status into v_id, v_status from pgqueue.task order by random() limit 1;
						if v_status = 'READY' then perform pgqueue.discard(v_id, '`+e.ns+`');
						elsif v_id is not null then perform pgqueue.retry(v_id, '`+e.ns+`'); end if;
					exception when sqlstate 'PQ009' then null;
					end $$`); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	checkInvariants(t, e.pool)
	if n := value[int](t, e.pool, "select count(*) from pgqueue.task where lease_number > 0"); n == 0 {
		t.Error("nothing was retried")
	}
}
