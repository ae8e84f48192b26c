package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

func (e *env) adopt(t testing.TB, db gen.DB, name string) map[uuid.UUID]gen.Adoption {
	t.Helper()
	all, err := gen.AdoptPending(t.Context(), db, gen.AdoptPendingParams{TaskName: name, Namespace: &e.ns})
	if err != nil {
		t.Fatalf("adopt_pending: %v", err)
	}
	found := map[uuid.UUID]gen.Adoption{}
	for _, a := range all {
		found[a.TaskID] = a
	}
	if len(found) != len(all) {
		t.Fatalf("a task is reported twice: %s", show(all))
	}
	return found
}

// plain enqueues a task without a key.
func (e *env) plain(t testing.TB, name, payload string) uuid.UUID {
	t.Helper()
	got, err := gen.Enqueue(t.Context(), e.pool, gen.EnqueueParams(e.typed(name, payload)))
	if err != nil {
		t.Fatal(err)
	}
	return wantCreated(t, got)
}

// D6: adopt_pending takes keys for pending tasks without one, oldest first; reports what could not be adopted and why; leaves
// settled tasks and those of other types alone; and can be run again.
func TestD6_AdoptPending(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	next := func(payload string) uuid.UUID {
		clock.forward(t, time.Second)
		return e.plain(t, "send", payload)
	}
	settled := next(`{"id": "a"}`)
	e.discard(t, e.pool, settled)
	running := next(`{"id": "a"}`)
	claimed := e.claim(t, e.pool, e.lease(t, time.Minute), running)
	second, third := next(`{"id": "a"}`), next(`{"id": "a"}`)
	alone := next(`{"id": 7}`)
	keyless, twoKeys, badKey := next(`{}`), next(`[{"id": 1}, {"id": 2}]`), next(`{"id": ""}`)
	other := e.plain(t, "other", `{"id": "a"}`)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	// A task that came after the declaration may hold a key already.
	late := next(`{"id": "late"}`)
	early := value[string](t, e.pool, "select pgqueue._new_id($1::timestamptz)::text", noon)
	exec(t, e.pool, `insert into pgqueue.task (namespace, id, name, queue, status, claimable, priority, max_attempts, run_after, created_at, payload)
		select namespace, $2::uuid, name, queue, status, claimable, priority, max_attempts, run_after, created_at, payload
		from pgqueue.task where namespace = $1::text and id = $3::uuid`, e.ns, early, late.String())
	earlyID := uuid.MustParse(early)

	want := map[uuid.UUID]gen.Adoption{
		running:  {ActiveKey: ptr("a"), Adopted: true},
		second:   {ActiveKey: ptr("a"), HolderID: &running},
		third:    {ActiveKey: ptr("a"), HolderID: &running},
		alone:    {ActiveKey: ptr("7"), Adopted: true},
		keyless:  {Error: ptr(`uniqueness_required: selector $."id" of active_key for task "send" finds nothing in the payload`)},
		twoKeys:  {Error: ptr(`key_selector_failed: selector $."id" of active_key for task "send" selects 2 values, it must select one`)},
		badKey:   {ActiveKey: ptr(""), Error: ptr("invalid_key: active_key is empty")},
		earlyID:  {ActiveKey: ptr("late"), HolderID: &late},
		uuid.Nil: {},
	}
	delete(want, uuid.Nil)
	check := func(got map[uuid.UUID]gen.Adoption) {
		t.Helper()
		for id, w := range want {
			w.TaskID = id
			if show(got[id]) != show(w) {
				t.Errorf("task %s: %s, want %s", id, show(got[id]), show(w))
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d tasks are reported, want %d: %s", len(got), len(want), show(got))
		}
		checkInvariants(t, e.pool)
	}
	check(e.adopt(t, e.pool, "send"))
	for _, id := range []uuid.UUID{running, alone} {
		if task := e.task(t, id); task.ActiveKey == nil || *task.ActiveKey != *want[id].ActiveKey {
			t.Errorf("the adopted task is %s", show(task))
		}
	}
	// The adopted hold their keys from now on.
	wantReused(t, e.enqueue(t, e.typed("send", `{"id": "a"}`)), running, gen.DuplicateMatchActive)
	wantReused(t, e.enqueue(t, e.typed("send", `{"id": 7}`)), alone, gen.DuplicateMatchActive)

	// Again: the adopted are left alone. When the holder is done, the oldest of the others gets the key.
	delete(want, running)
	delete(want, alone)
	check(e.adopt(t, e.pool, "send"))
	e.complete(t, e.pool, claimed)
	want[second] = gen.Adoption{ActiveKey: ptr("a"), Adopted: true}
	want[third] = gen.Adoption{ActiveKey: ptr("a"), HolderID: &second}
	check(e.adopt(t, e.pool, "send"))
	if task := e.task(t, other); task.ActiveKey != nil {
		t.Errorf("a task of another type was adopted: %s", show(task))
	}
	if task := e.task(t, settled); task.ActiveKey != nil {
		t.Errorf("a settled task was adopted: %s", show(task))
	}
}

// D6: a type whose whole payload is the key takes the derived key; a type without a selector is refused.
func TestD6_DerivedKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, p := range map[string]*gen.DeclareTaskParams{
		"unknown": nil, "plain": {}, "required": {ActiveKeyRequired: ptr(true)},
		"window": {WindowKeySelector: ptr("$"), WindowLength: ptr(time.Hour)},
	} {
		if p != nil {
			p.TaskName = name
			e.declare(t, *p)
		}
		_, err := gen.AdoptPending(t.Context(), e.pool, gen.AdoptPendingParams{TaskName: name, Namespace: &e.ns})
		wantError(t, err, "22023")
	}
	first, second := e.plain(t, "send", `{"a": 1, "b": 2}`), e.plain(t, "send", `{"b": 2, "a": 1.0}`)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$")})
	got := e.adopt(t, e.pool, "send")
	if len(got) != 2 || !got[first].Adopted || !got[second].Adopted {
		t.Fatalf("adopted: %s", show(got))
	}
	wantReused(t, e.enqueue(t, e.typed("send", `{"b": 2, "a": 1}`)), first, gen.DuplicateMatchActive)
	checkInvariants(t, e.pool)
}

// adopts starts adopt_pending and returns when it waits for a lock.
func (e *env) adopts(t *testing.T, conn *pgx.Conn, name string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx := t.Context()
	go func() {
		_, err := gen.AdoptPending(ctx, conn, gen.AdoptPendingParams{TaskName: name, Namespace: &e.ns})
		done <- err
	}()
	pgtest.WaitBlocked(t, e.pool, conn.PgConn().PID())
	return done
}

// D6: two operators at once. The second waits for the first, finds the tasks adopted, and leaves their keys as they are.
func TestD6_TwoAdoptions(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.plain(t, "send", `{"id": "a"}`)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	first := e.session(t, readCommitted)
	exec(t, first, "begin")
	e.adopt(t, first, "send")
	second := e.adopts(t, e.session(t, readCommitted), "send")
	exec(t, first, "commit")
	if err := wait(t, second); err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, e.pool)
	wantReused(t, e.enqueue(t, e.typed("send", `{"id": "a"}`)), id, gen.DuplicateMatchActive)
}

// D6, B4: an adoption takes keys from the oldest task on, a batch in its own order: they must not wait for each other in a circle.
func TestD6_AdoptionAndBatch(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	oldest := e.plain(t, "send", `{"id": "high"}`)
	e.plain(t, "send", `{"id": "low"}`)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	blocker, producer, operator := e.session(t, readCommitted), e.session(t, readCommitted), e.session(t, readCommitted)
	exec(t, blocker, "begin")
	wantCreated(t, enqueue(t, blocker, e.typed("send", `{"id": "middle"}`)))
	all := []batchItem{{request: e.typed("send", `{"id": "low"}`)}, {request: e.typed("send", `{"id": "middle"}`)}, {request: e.typed("send", `{"id": "high"}`)}}
	batch := e.sendBatch(t, producer, all)
	adoption := e.adopts(t, operator, "send")
	exec(t, blocker, "rollback")
	if got := wait(t, batch); got.err != nil {
		t.Errorf("the batch: %v", got.err)
	}
	if err := wait(t, adoption); err != nil {
		t.Errorf("the adoption: %v", err)
	}
	if task := e.task(t, oldest); task.Status != gen.TaskStatusReady {
		t.Errorf("the oldest task is %s", show(task))
	}
	checkInvariants(t, e.pool)
}

// D6: adoptions while producers enqueue and workers finish the tasks.
func TestD6_AmongTraffic(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const keys = 40
	for i := range 3 * keys {
		e.plain(t, "send", fmt.Sprintf(`{"id": %d}`, i%keys))
	}
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	over, stop := context.WithCancel(t.Context())
	var workers, all sync.WaitGroup
	for worker := range 2 {
		conn := e.session(t, readCommitted)
		workers.Go(func() { e.settleAll(t, over, conn, worker) })
	}
	for producer := range 4 {
		conn := e.session(t, readCommitted)
		all.Go(func() {
			for i := range keys {
				key := (i*7 + producer) % keys
				if _, err := gen.Enqueue(t.Context(), conn, gen.EnqueueParams(e.typed("send", fmt.Sprintf(`{"id": %d}`, key)))); err != nil {
					t.Error(err)
				}
				pair := []batchItem{{request: e.typed("send", fmt.Sprintf(`{"id": %d}`, key))}, {request: e.typed("send", fmt.Sprintf(`{"id": %d}`, keys-1-key))}}
				if _, err := gen.EnqueueMany(t.Context(), conn, e.batch(pair)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		conn := e.session(t, readCommitted)
		all.Go(func() {
			for range 10 {
				if _, err := gen.AdoptPending(t.Context(), conn, gen.AdoptPendingParams{TaskName: "send", Namespace: &e.ns}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	stop()
	workers.Wait()
	checkInvariants(t, e.pool)
}
