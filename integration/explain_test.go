package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// explain asks for one key, which must be answered with one row.
func (e *env) explain(t *testing.T, p gen.ExplainKeyParams) gen.KeyExplanation {
	t.Helper()
	p.Namespace = &e.ns
	if p.TaskName == "" {
		p.TaskName = "send"
	}
	found, err := gen.ExplainKey(t.Context(), e.pool, p)
	if err != nil || len(found) != 1 {
		t.Fatalf("explain_key: %s, %v", show(found), err)
	}
	return found[0]
}

// A2, A3, A4: explain_key says who holds an active key in every state of its holder, as the gate sees it.
func TestA3_ExplainActiveKey(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	r := e.active("k")
	check := func(state string, id uuid.UUID, status gen.TaskStatus, held bool, worker string, words ...string) {
		t.Helper()
		got := e.explain(t, gen.ExplainKeyParams{ActiveKey: ptr("k")})
		want := gen.KeyExplanation{Kind: "ACTIVE", Status: status, Held: held, Explanation: got.Explanation}
		if id != uuid.Nil {
			want.TaskID = &id
		}
		if held {
			want.Since = got.Since
			if got.Since == nil || !got.Since.Equal(noon) {
				t.Errorf("%s: since %v", state, got.Since)
			}
		}
		if worker != "" {
			want.Worker = &worker
		}
		if show(got) != show(want) {
			t.Errorf("%s: %s, want %s", state, show(got), show(want))
		}
		for _, word := range words {
			if !strings.Contains(got.Explanation, word) {
				t.Errorf("%s: %q does not say %q", state, got.Explanation, word)
			}
		}
		// The gate has the last word, and a dry look at it leaves nothing.
		conn := e.session(t, readCommitted)
		exec(t, conn, "begin")
		if answer := enqueue(t, conn, r); (answer.Disposition == gen.DispositionReused) != held {
			t.Errorf("%s: held is %v, the gate answers %s", state, held, show(answer))
		}
		exec(t, conn, "rollback")
	}
	check("no task", uuid.Nil, "", false, "", "The key is free: no task has it.")
	scheduled := r
	scheduled.Delay = ptr(time.Hour)
	id := e.create(t, scheduled)
	check("scheduled", id, gen.TaskStatusReady, true, "", "waits until 2030-06-15 13:00:00", "attempt 1 of 10", "pgqueue.discard()")
	clock.forward(t, time.Hour)
	lease := e.lease(t, time.Minute)
	claimed := e.claim(t, e.pool, lease, id)
	check("running", id, gen.TaskStatusRunning, true, "w", "runs at worker w", "attempt 1 of 10", "expired at 2030-06-15 13:01:00")
	e.fail(t, e.pool, claimed, gen.TaskStatusReady)
	check("in backoff", id, gen.TaskStatusReady, true, "", "attempt 2 of 10")
	clock.forward(t, time.Hour)
	e.lastAttempt(t, id)
	claimed = e.claim(t, e.pool, e.lease(t, time.Minute), id)
	e.fail(t, e.pool, claimed, gen.TaskStatusFailed)
	check("failed", id, gen.TaskStatusFailed, false, "", "The key is free", "is FAILED")
	e.retry(t, e.pool, id)
	check("retried", id, gen.TaskStatusReady, true, "")
	e.settle(t, id, gen.TaskStatusLost)
	check("lost", id, gen.TaskStatusLost, false, "", "is LOST")
	e.discard(t, e.pool, id)
	check("discarded", id, gen.TaskStatusDiscarded, false, "", "is DISCARDED")
	exec(t, e.pool, "delete from pgqueue.task where namespace = $1::text", e.ns)
	check("deleted", id, "", false, "", "was pruned")
	e.prune(t, e.pool)
	check("cleaned up", uuid.Nil, "", false, "", "no task has it")
}

// W1, W8: explain_key of window keys: open, with its task in any state or pruned, ended, forgotten.
func TestW1_ExplainWindowKey(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	r := e.window("w", time.Hour)
	check := func(state string, id uuid.UUID, status gen.TaskStatus, held bool, words ...string) {
		t.Helper()
		got := e.explain(t, gen.ExplainKeyParams{WindowKey: ptr("w")})
		want := gen.KeyExplanation{Kind: "WINDOW", Status: status, Held: held, Explanation: got.Explanation}
		if id != uuid.Nil {
			want.TaskID, want.Since, want.Until = &id, got.Since, got.Until
			if got.Since == nil || !got.Since.Equal(noon) || got.Until == nil || !got.Until.Equal(noon.Add(time.Hour)) {
				t.Errorf("%s: from %v to %v", state, got.Since, got.Until)
			}
		}
		if show(got) != show(want) {
			t.Errorf("%s: %s, want %s", state, show(got), show(want))
		}
		for _, word := range words {
			if !strings.Contains(got.Explanation, word) {
				t.Errorf("%s: %q does not say %q", state, got.Explanation, word)
			}
		}
	}
	check("no request", uuid.Nil, "", false, "no request has it")
	id := e.create(t, r)
	check("ready", id, gen.TaskStatusReady, true, "accepted at 2030-06-15 12:00:00", id.String()+" (READY)", "until 2030-06-15 13:00:00", "pgqueue.forget_window()")
	e.settle(t, id, gen.TaskStatusSuccessful)
	check("successful", id, gen.TaskStatusSuccessful, true, "(SUCCESSFUL)")
	e.prune(t, e.pool)
	check("pruned", id, "", true, "(pruned)")
	clock.forward(t, time.Hour-time.Microsecond)
	check("at the end", id, "", true)
	clock.forward(t, time.Microsecond)
	check("over", id, "", false, "its window ended at 2030-06-15 13:00:00")
	if forgotten, err := gen.ForgetWindow(t.Context(), e.pool, gen.ForgetWindowParams{TaskName: "send", WindowKey: "w", Namespace: &e.ns}); err != nil || !forgotten {
		t.Errorf("forget_window: %v, %v", forgotten, err)
	}
	check("forgotten", uuid.Nil, "", false, "no request has it")

	// Both keys in one call, neither, and a derived key.
	r.ActiveKey = ptr("k")
	id = e.create(t, r)
	both, err := gen.ExplainKey(t.Context(), e.pool, gen.ExplainKeyParams{TaskName: "send", ActiveKey: ptr("k"), WindowKey: ptr("w"), Namespace: &e.ns})
	if err != nil || len(both) != 2 || both[0].Kind != "ACTIVE" || both[1].Kind != "WINDOW" || *both[0].TaskID != id || *both[1].TaskID != id || both[0].Until != nil {
		t.Errorf("both keys: %s, %v", show(both), err)
	}
	none, err := gen.ExplainKey(t.Context(), e.pool, gen.ExplainKeyParams{TaskName: "send", Namespace: &e.ns})
	if err != nil || len(none) != 0 {
		t.Errorf("no key: %s, %v", show(none), err)
	}
	derived := e.create(t, request{TaskName: "derived", Payload: json.RawMessage(`[1]`), Namespace: &e.ns})
	key, err := gen.UniqueKey(t.Context(), e.pool, gen.UniqueKeyParams{TaskName: "derived", Payload: json.RawMessage(`[1]`), Namespace: &e.ns})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.explain(t, gen.ExplainKeyParams{TaskName: "derived", ActiveKey: &key}); !got.Held || *got.TaskID != derived {
		t.Errorf("the derived key: %s", show(got))
	}
	if got := e.explain(t, gen.ExplainKeyParams{TaskName: "other", ActiveKey: &key}); got.Held {
		t.Errorf("another task's key: %s", show(got))
	}
}

// A10: check_invariants reports each broken rule, with the task, and nothing in what is whole. Rows are broken by hand here, and a
// rule that is added to the function without a line in this test fails it.
func TestA10_CheckInvariantsFindsBrokenRows(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const update = "update pgqueue.task set %s where namespace = $1::text and id = $2::uuid"
	broken := map[string][]string{
		"one pending task for each active key": {`insert into pgqueue.task (namespace, id, name, queue, status, claimable, priority, max_attempts, run_after, created_at, lock_key, payload)
			select namespace, gen_random_uuid(), name, queue, status, claimable, priority, max_attempts, run_after, created_at, lock_key, payload
			from pgqueue.task where namespace = $1::text and id = $2::uuid`},
		"a pending task holds its active key": {
			"delete from pgqueue.unique_lock where namespace = $1::text and task_id = $2::uuid",
			"update pgqueue.unique_lock set task_id = gen_random_uuid() where namespace = $1::text and task_id = $2::uuid",
		},
		"a key points to a task that was enqueued under it": {
			"insert into pgqueue.unique_lock (namespace, key, task_id) values ($1::text, 'other', $2::uuid)",
			fmt.Sprintf(update, "lock_key = null"),
		},
		"claimable means READY": {fmt.Sprintf(update, "claimable = false"),
			fmt.Sprintf(update, "status = 'FAILED', finished_at = now()")},
		"a RUNNING task has a lease": {fmt.Sprintf(update, "status = 'RUNNING', claimable = false, attempt = 1"),
			fmt.Sprintf(update, "status = 'RUNNING', claimable = false, attempt = 1, lease_id = gen_random_uuid()")},
		"a task is finished when it is settled": {fmt.Sprintf(update, "finished_at = now()"),
			fmt.Sprintf(update, "status = 'LOST', claimable = false, attempt = 1")},
		"attempts stay within their bounds": {fmt.Sprintf(update, "attempt = -1"), fmt.Sprintf(update, "attempt = max_attempts"),
			fmt.Sprintf(update, "status = 'FAILED', claimable = false, finished_at = now(), attempt = max_attempts + 1")},
		"a window ends after it begins": {"update pgqueue.unique_window set expires_at = accepted_at where namespace = $1::text and task_id = $2::uuid"},
	}
	source := value[string](t, e.pool, "select prosrc from pg_catalog.pg_proc where oid = 'pgqueue.check_invariants(text)'::regprocedure")
	if rules := strings.Count(source, "union all") + 1; rules != len(broken) {
		t.Errorf("the function has %d rules, this test knows %d", rules, len(broken))
	}
	violations := func(ns *string) []gen.Violation {
		t.Helper()
		found, err := gen.CheckInvariants(t.Context(), e.pool, gen.CheckInvariantsParams{Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	where := map[string]int{}
	for rule, ways := range broken {
		for _, way := range ways {
			e := e.scope()
			r := e.window("w", time.Hour)
			r.ActiveKey = ptr("k")
			id := e.create(t, r)
			if found := violations(&e.ns); len(found) != 0 {
				t.Fatalf("violations in what is whole: %s", show(found))
			}
			exec(t, e.pool, way, e.ns, id.String())
			reported := false
			for _, v := range violations(&e.ns) {
				reported = reported || v.Rule == rule && v.TaskID != nil && *v.TaskID == id && v.Namespace == e.ns && v.Details != ""
				where[e.ns]++
			}
			if !reported {
				t.Errorf("%s: not reported after %s: %s", rule, way, show(violations(&e.ns)))
			}
		}
	}
	// Without a namespace: all of them.
	for _, v := range violations(nil) {
		where[v.Namespace]--
	}
	for ns, n := range where {
		if n != 0 {
			t.Errorf("%s: %d violations more in its own check than in that of all", ns, n)
		}
	}
}
