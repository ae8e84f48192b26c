package integration_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

var settled = []gen.TaskStatus{gen.TaskStatusSuccessful, gen.TaskStatusFailed, gen.TaskStatusLost, gen.TaskStatusDiscarded}

// A2, case_C18, case_C11: waiting, scheduled, running, snoozed, in backoff, handed back, retried: the key never comes free in
// between, and a duplicate changes nothing of its holder.
func TestA2_HeldWhilePending(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.active("k")
	r.Delay = ptr(time.Hour)
	id := e.create(t, r)
	held := func(when string, status gen.TaskStatus) {
		t.Helper()
		before := show(e.task(t, id))
		got := e.enqueue(t, e.active("k"))
		wantReused(t, got, id, gen.DuplicateMatchActive)
		if got.Status != status {
			t.Errorf("%s: the status is %s, want %s", when, got.Status, status)
		}
		if after := show(e.task(t, id)); after != before {
			t.Errorf("%s: the duplicate changed the holder\nfrom %s\nto   %s", when, before, after)
		}
		checkInvariants(t, e.pool)
	}
	due := func() {
		t.Helper()
		exec(t, e.pool, "update pgqueue.task set run_after = created_at where namespace = $1::text", e.ns)
	}
	held("scheduled", gen.TaskStatusReady)
	due()
	held("due", gen.TaskStatusReady)
	lease := e.lease(t, time.Minute)
	task := e.claim(t, e.pool, lease, id)
	held("running", gen.TaskStatusRunning)
	e.fail(t, e.pool, task, gen.TaskStatusReady)
	held("in retry backoff", gen.TaskStatusReady)
	due()
	task = e.claim(t, e.pool, lease, id)
	held("in its second attempt", gen.TaskStatusRunning)
	if _, err := gen.Snooze(t.Context(), e.pool, gen.SnoozeParams{TaskID: id, LeaseNumber: task.LeaseNumber, Delay: time.Hour, Namespace: &e.ns}); err != nil {
		t.Fatal(err)
	}
	held("snoozed", gen.TaskStatusReady)
	due()
	e.claim(t, e.pool, lease, id)
	if _, err := gen.CloseLease(t.Context(), e.pool, gen.CloseLeaseParams{LeaseID: lease, Namespace: &e.ns}); err != nil {
		t.Fatal(err)
	}
	held("handed back", gen.TaskStatusReady)
	e.settle(t, id, gen.TaskStatusFailed)
	e.retry(t, e.pool, id)
	held("retried by an operator", gen.TaskStatusReady)
}

// A2: no time limit of its own.
func TestA2_HeldForYears(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	id := e.create(t, e.active("k"))
	clock.forward(t, 20*365*24*time.Hour)
	e.prune(t, e.pool)
	e.reap(t, e.pool)
	wantReused(t, e.enqueue(t, e.active("k")), id, gen.DuplicateMatchActive)
}

// A3, A11: the key is free as soon as the holder's row is settled or gone, without any signal: the status is written past all
// functions here, and nothing but the next enqueue looks at it.
func TestA3_A11_FreeOnceTheRowIsSettled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, status := range settled {
		for _, way := range []string{"by its functions", "by hand", "pruned", "deleted by hand"} {
			t.Run(string(status)+"/"+way, func(t *testing.T) {
				e := e.scope()
				old := e.create(t, e.active("k"))
				if way == "by hand" {
					exec(t, e.pool, `update pgqueue.task set status = $2::text::pgqueue.task_status, claimable = false, finished_at = now()
						where namespace = $1::text`, e.ns, string(status))
				} else {
					e.settle(t, old, status)
				}
				switch way {
				case "pruned":
					if pruned := e.prune(t, e.pool); pruned.Tasks != 1 {
						t.Fatalf("pruned %s", show(pruned))
					}
				case "deleted by hand":
					exec(t, e.pool, "delete from pgqueue.task where namespace = $1::text", e.ns)
				}
				next := e.create(t, e.active("k"))
				wantReused(t, e.enqueue(t, e.active("k")), next, gen.DuplicateMatchActive)
				checkInvariants(t, e.pool)
			})
		}
	}
}

// A3, A15, case_C20: a LOST row frees the key although its execution may still run. Two executions of one key then overlap, and
// the old one's late outcome goes onto its own row only.
func TestA3_A15_LostExecutionStillRuns(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	old := e.create(t, e.active("k"))
	e.lastAttempt(t, old)
	execution := e.claim(t, e.pool, e.lease(t, time.Minute), old)
	e.expireLeases(t)
	e.reap(t, e.pool)
	next := e.create(t, e.active("k"))
	overlapping := e.claim(t, e.pool, e.lease(t, time.Minute), next)
	e.complete(t, e.pool, execution)
	wantReused(t, e.enqueue(t, e.active("k")), next, gen.DuplicateMatchActive)
	if holder := e.keyHolder(t); holder != next {
		t.Errorf("the key points to %s, want %s", holder, next)
	}
	checkInvariants(t, e.pool)
	e.complete(t, e.pool, overlapping)
	e.create(t, e.active("k"))
}

// A4, case_C21: a dead worker's task holds its key until the lease expires and the reaper takes it.
func TestA4_DeadWorkerHoldsUntilReaped(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	r := e.active("k")
	r.MaxAttempts = ptr(2)
	id := e.create(t, r)
	held := func(status gen.TaskStatus) {
		t.Helper()
		got := e.enqueue(t, e.active("k"))
		wantReused(t, got, id, gen.DuplicateMatchActive)
		if got.Status != status {
			t.Errorf("the status is %s, want %s", got.Status, status)
		}
	}
	for attempt := 1; attempt <= 2; attempt++ {
		e.claim(t, e.pool, e.lease(t, 30*time.Second), id)
		clock.forward(t, 29*time.Second)
		if reaped := e.reap(t, e.pool); reaped != (gen.Reaped{}) {
			t.Fatalf("reaped %s before the lease expired", show(reaped))
		}
		held(gen.TaskStatusRunning)
		clock.forward(t, 2*time.Second)
		held(gen.TaskStatusRunning) // expired, not yet reaped
		reaped := e.reap(t, e.pool)
		if want := (gen.Reaped{Requeued: int64(2 - attempt), Lost: int64(attempt - 1)}); reaped != want {
			t.Fatalf("attempt %d: reaped %s, want %s", attempt, show(reaped), show(want))
		}
		if attempt == 1 {
			held(gen.TaskStatusReady)
		}
	}
	e.create(t, e.active("k"))
	checkInvariants(t, e.pool)
}

// case_C21, case_C22: maintenance in a loop never frees the key of a task whose worker renews, however long it runs.
func TestCase_C21_C22_MaintenanceNeverFreesALiveKey(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	id := e.create(t, e.active("k"))
	lease := e.lease(t, 30*time.Second)
	e.claim(t, e.pool, lease, id)
	for range 100 {
		clock.forward(t, 20*time.Second)
		renewal, err := gen.RenewLease(t.Context(), e.pool, gen.RenewLeaseParams{LeaseID: lease, Namespace: &e.ns})
		if err != nil || !renewal.Renewed {
			t.Fatalf("renew_lease: %s, %v", show(renewal), err)
		}
		released, err := gen.ReleaseStale(t.Context(), e.pool, gen.ReleaseStaleParams{Namespace: &e.ns})
		if err != nil || released != 0 {
			t.Fatalf("release_stale: %d, %v", released, err)
		}
		if reaped, pruned := e.reap(t, e.pool), e.prune(t, e.pool); reaped != (gen.Reaped{}) || pruned != (gen.Pruned{}) {
			t.Fatalf("reaped %s, pruned %s", show(reaped), show(pruned))
		}
	}
	wantReused(t, e.enqueue(t, e.active("k")), id, gen.DuplicateMatchActive)
}

// A11: release_stale is hygiene: it removes what no pending task holds, nothing else, and no answer depends on it.
func TestA11_ReleaseStaleIsHygiene(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	stale, gone, pending := e.create(t, e.active("stale")), e.create(t, e.active("gone")), e.create(t, e.active("pending"))
	e.discard(t, e.pool, stale)
	exec(t, e.pool, "delete from pgqueue.task where id = $1::uuid", gone.String())
	if n, err := gen.ReleaseStale(t.Context(), e.pool, gen.ReleaseStaleParams{Namespace: &e.ns}); err != nil || n != 2 {
		t.Errorf("released %d, %v; want 2", n, err)
	}
	if holder := e.keyHolder(t); holder != pending {
		t.Errorf("the key that is left points to %s, want %s", holder, pending)
	}
	e.create(t, e.active("stale"))
	e.create(t, e.active("gone"))
	checkInvariants(t, e.pool)
}

// A12: the lock row's task id is bare: no foreign key anywhere in the schema, pruning does not touch a key's row, and a dangling
// id reads as settled.
func TestA12_NoForeignKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if n := value[int](t, e.pool, `select count(*) from pg_catalog.pg_constraint c
		join pg_catalog.pg_namespace n on n.oid = c.connamespace where n.nspname = 'pgqueue' and c.contype = 'f'`); n != 0 {
		t.Errorf("%d foreign keys", n)
	}
	old := e.create(t, e.active("k"))
	e.discard(t, e.pool, old)
	exec(t, e.pool, "delete from pgqueue.task where namespace = $1::text", e.ns)
	if holder := e.keyHolder(t); holder != old {
		t.Fatalf("the key points to %s, want the deleted %s", holder, old)
	}
	next := e.create(t, e.active("k"))
	if holder := e.keyHolder(t); holder != next {
		t.Errorf("the key points to %s, want %s", holder, next)
	}
	checkInvariants(t, e.pool)
}

// A19, case_C13: release is by (key, task id): nothing that happens to an old holder frees a key that moved on.
func TestA19_OldHolderNeverFreesAMovedKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, happen := range map[string]func(t *testing.T, e *env, old uuid.UUID, late gen.ClaimedTask){
		"pruned": func(t *testing.T, e *env, _ uuid.UUID, _ gen.ClaimedTask) { e.prune(t, e.pool) },
		"deleted": func(t *testing.T, e *env, old uuid.UUID, _ gen.ClaimedTask) {
			exec(t, e.pool, "delete from pgqueue.task where id = $1::uuid", old.String())
		},
		"late success": func(t *testing.T, e *env, _ uuid.UUID, late gen.ClaimedTask) { e.complete(t, e.pool, late) },
		"late failure": func(t *testing.T, e *env, _ uuid.UUID, late gen.ClaimedTask) {
			e.fail(t, e.pool, late, gen.TaskStatusFailed)
		},
		"discarded":      func(t *testing.T, e *env, old uuid.UUID, _ gen.ClaimedTask) { e.discard(t, e.pool, old) },
		"late successes": lateBatch,
		// case_C19: an operator's retry runs beside the newer holder, names it, and ends without freeing its key.
		"retried and done": func(t *testing.T, e *env, old uuid.UUID, _ gen.ClaimedTask) {
			newer := e.keyHolder(t)
			retried := e.retry(t, e.pool, old)
			if retried.HoldsKey == nil || *retried.HoldsKey || retried.KeyHolderID == nil || *retried.KeyHolderID != newer {
				t.Errorf("the answer is %s, want the newer holder %s", show(retried), newer)
			}
			checkInvariants(t, e.pool)
			exec(t, e.pool, "update pgqueue.task set run_after = now() + interval '1 hour' where namespace = $1::text and id <> $2::uuid", e.ns, old.String())
			e.settle(t, old, gen.TaskStatusSuccessful)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := e.scope()
			old := e.create(t, e.active("k"))
			e.lastAttempt(t, old)
			late := e.claim(t, e.pool, e.lease(t, time.Minute), old)
			e.expireLeases(t)
			e.reap(t, e.pool)
			next := e.create(t, e.active("k"))
			happen(t, e, old, late)
			if _, err := gen.ReleaseStale(t.Context(), e.pool, gen.ReleaseStaleParams{Namespace: &e.ns}); err != nil {
				t.Fatal(err)
			}
			if holder := e.keyHolder(t); holder != next {
				t.Errorf("the key points to %s, want %s", holder, next)
			}
			wantReused(t, e.enqueue(t, e.active("k")), next, gen.DuplicateMatchActive)
			checkInvariants(t, e.pool)
		})
	}
}

func lateBatch(t *testing.T, e *env, old uuid.UUID, late gen.ClaimedTask) {
	lost, err := gen.CompleteMany(t.Context(), e.pool, gen.CompleteManyParams{
		TaskIDs: []uuid.UUID{old}, LeaseNumbers: []int{late.LeaseNumber}, Namespace: &e.ns})
	if err != nil || len(lost) != 0 {
		t.Fatalf("complete_many: %v, %v", lost, err)
	}
}
