package integration_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// A1: while the holder is pending, an enqueue of its key inserts nothing and returns it.
func TestA1_PendingHolderAnswers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.create(t, e.active("k"))
	before := e.rows(t)
	wantReused(t, e.enqueue(t, e.active("k")), first, gen.DuplicateMatchActive)
	wantReused(t, tryEnqueue(t, e.pool, e.active("k")), first, gen.DuplicateMatchActive)
	if after := e.rows(t); after != before {
		t.Errorf("%d rows, want the %d of before", after, before)
	}
	if second := e.create(t, e.active("k2")); second == first {
		t.Error("another key gave the same task")
	}
	checkInvariants(t, e.pool)
}

// A1, case_C64: the receipt's id leads to the task at once, in the same session and after the holder's commit.
func TestA1_ReceiptLeadsToTheTask(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.create(t, e.active("k"))
	again := e.enqueue(t, e.active("k"))
	if got := e.task(t, *again.TaskID); got.ID != first || got.Status != gen.TaskStatusReady {
		t.Errorf("get_task gives %s", show(got))
	}
	holder, err := gen.PendingHolder(t.Context(), e.pool, gen.PendingHolderParams{TaskName: "send", ActiveKey: "k", Namespace: &e.ns})
	if err != nil || len(holder) != 1 {
		t.Fatalf("pending_holder gives %s, %v", show(holder), err)
	}
	wantReused(t, holder[0], first, gen.DuplicateMatchActive)
}

// A5: a duplicate is answered with the stored row, never with the caller's own values. A7: the second payload is discarded.
func TestA5_A7_TheStoredRowAnswers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	due := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	first := e.active("k")
	first.Payload, first.Queue, first.Priority, first.RunAfter = json.RawMessage(`{"n": 1}`), ptr("first"), ptr(7), &due
	created := e.enqueue(t, first)
	id := wantCreated(t, created)

	second := e.active("k")
	second.Payload, second.Queue, second.Priority, second.Delay = json.RawMessage(`{"n": 2}`), ptr("second"), ptr(-7), ptr(time.Minute)
	for _, status := range []gen.TaskStatus{gen.TaskStatusReady, gen.TaskStatusRunning} {
		if status == gen.TaskStatusRunning {
			exec(t, e.pool, "update pgqueue.task set run_after = created_at where namespace = $1::text", e.ns)
			due = *created.CreatedAt
			e.claim(t, e.pool, e.lease(t, time.Minute), id, "first")
		}
		got := e.enqueue(t, second)
		wantReused(t, got, id, gen.DuplicateMatchActive)
		task := e.task(t, id)
		if *got.Queue != "first" || *got.Priority != 7 || !got.RunAfter.Equal(due) || !got.CreatedAt.Equal(*created.CreatedAt) ||
			got.Status != status || *got.Attempt != task.Attempt || *got.PolicyDrift {
			t.Errorf("%s: the receipt is %s, the task %s", status, show(got), show(task))
		}
		if string(task.Payload) != `{"n": 1}` {
			t.Errorf("the payload is %s", task.Payload)
		}
	}
}

// A9, case_C32: an active key is scoped to (namespace, task name).
func TestA9_Scope(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	otherNamespace := e.scope()
	otherTask := e.active("k")
	otherTask.TaskName = "other"
	seen := map[uuid.UUID]bool{}
	for _, r := range []request{e.active("k"), otherTask, otherNamespace.active("k")} {
		id := e.create(t, r)
		wantReused(t, e.enqueue(t, r), id, gen.DuplicateMatchActive)
		seen[id] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d tasks, want 3", len(seen))
	}
	// The parts are not glued together: another split of the same text is another key.
	left, right := e.active("c"), e.active("bc")
	left.TaskName, right.TaskName = "ab", "a"
	e.create(t, left)
	e.create(t, right)
	checkInvariants(t, e.pool)
}

// A17, case_C08: the same key twice in one transaction.
func TestA17_TwiceInOneTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			e := e.scope()
			conn := e.session(t, level)
			exec(t, conn, "begin")
			first := wantCreated(t, enqueue(t, conn, e.active("k")))
			wantReused(t, enqueue(t, conn, e.active("k")), first, gen.DuplicateMatchActive)
			exec(t, conn, "commit")
			if n := e.tasks(t); n != 1 {
				t.Errorf("%d tasks", n)
			}
			checkInvariants(t, e.pool)
		})
	}
}

// A20: a plain enqueue takes no key, stands beside a holder of the same payload, is no duplicate and is not removed.
func TestA20_PlainEnqueueStandsBeside(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	payload := json.RawMessage(`{"order": 1}`)
	derived := request{TaskName: "send", Payload: payload, Namespace: &e.ns}
	plain := func() uuid.UUID {
		t.Helper()
		r, err := gen.Enqueue(t.Context(), e.pool, gen.EnqueueParams{TaskName: "send", Payload: payload, Namespace: &e.ns})
		if err != nil {
			t.Fatal(err)
		}
		return wantCreated(t, r)
	}
	before := plain()
	holder := e.create(t, derived)
	beside := plain()
	wantReused(t, e.enqueue(t, derived), holder, gen.DuplicateMatchActive)
	for _, id := range []uuid.UUID{before, beside} {
		if got := value[bool](t, e.pool, "select lock_key is null from pgqueue.task where id = $1::uuid", id.String()); !got {
			t.Errorf("the plain task %s took a key", id)
		}
	}
	e.discard(t, e.pool, holder)
	next := e.create(t, derived)
	wantReused(t, e.enqueue(t, derived), next, gen.DuplicateMatchActive)
	if n := e.tasks(t); n != 4 {
		t.Errorf("%d tasks, want 4", n)
	}
	checkInvariants(t, e.pool)
}

// A1 for plain enqueue with a key given: it passes the same gate. B3 for the four functions.
func TestA1_EveryFunctionPassesTheGate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.active("k")
	holder := e.create(t, r)
	plain, err := gen.Enqueue(t.Context(), e.pool, gen.EnqueueParams(r))
	if err != nil {
		t.Fatal(err)
	}
	wantReused(t, plain, holder, gen.DuplicateMatchActive)
	tried, err := gen.TryEnqueue(t.Context(), e.pool, gen.TryEnqueueParams(r))
	if err != nil {
		t.Fatal(err)
	}
	wantReused(t, tried, holder, gen.DuplicateMatchActive)
}

// case_C09: a duplicate is a value and leaves the caller's transaction whole.
func TestCase_C09_DuplicateInsideABusinessTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "create table public.business (id int primary key)")
	holder := e.create(t, e.active("k"))
	for i, level := range levels {
		conn := e.session(t, level)
		exec(t, conn, "begin")
		exec(t, conn, "insert into public.business values ($1::int)", 2*i)
		wantReused(t, enqueue(t, conn, e.active("k")), holder, gen.DuplicateMatchActive)
		exec(t, conn, "insert into public.business values ($1::int)", 2*i+1)
		exec(t, conn, "commit")
	}
	if n := value[int](t, e.pool, "select count(*) from public.business"); n != 6 {
		t.Errorf("%d business rows, want 6", n)
	}
}
