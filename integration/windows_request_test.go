package integration_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// W4, case_C33: the same key with another request is a conflict that names the task, also after it settled or was pruned, until
// the window ends.
func TestW4_Conflict(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	first, second := e.window("w", time.Hour), e.window("w", time.Hour)
	first.Payload, second.Payload = json.RawMessage(`1`), json.RawMessage(`2`)
	id := e.create(t, first)
	conflict := func(when string) {
		t.Helper()
		before := e.rows(t)
		_, err := gen.EnqueueUnique(t.Context(), e.pool, second)
		failed := wantError(t, err, "PQ001")
		got := tryEnqueue(t, e.pool, second)
		wantRefusal(t, got, "PQ001")
		if got.ConflictingTaskID == nil || *got.ConflictingTaskID != id || got.ConflictingHolderID != nil ||
			member(t, []byte(failed.Detail), "task_id") != id.String() {
			t.Errorf("%s: the refusals are %s and %s, want task %s", when, show(got), failed.Detail, id)
		}
		wantReused(t, e.enqueue(t, first), id, gen.DuplicateMatchWindow)
		if after := e.rows(t); after != before {
			t.Errorf("%s: %d rows were written", when, after-before)
		}
	}
	conflict("pending")
	e.settle(t, id, gen.TaskStatusFailed)
	conflict("failed")
	e.retry(t, e.pool, id)
	conflict("retried")
	e.settle(t, id, gen.TaskStatusSuccessful)
	conflict("successful")
	e.prune(t, e.pool)
	conflict("pruned")
	clock.stop(t, noon.Add(time.Hour-time.Microsecond))
	conflict("at the end")
	clock.stop(t, noon.Add(time.Hour))
	id = e.create(t, second)
	first, second = second, first
	conflict("the other way round")
}

var at = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)

// requestFields are changes to a request. Two of one list are two requests, and every one is another than the plain one.
var requestFields = map[string][]func(*request){
	"payload": { // case_C30: no containment; case_C31: 1 and 1.0 differ
		func(r *request) { r.Payload = json.RawMessage(`{}`) },
		func(r *request) { r.Payload = json.RawMessage(`{"f": 1}`) },
		func(r *request) { r.Payload = json.RawMessage(`{"f": 1.0}`) },
		func(r *request) { r.Payload = json.RawMessage(`{"f": "1"}`) },
		func(r *request) { r.Payload = json.RawMessage(`[]`) },
	},
	"queue":    {func(r *request) { r.Queue = ptr("a") }, func(r *request) { r.Queue = ptr("b") }},
	"priority": {func(r *request) { r.Priority = ptr(1) }, func(r *request) { r.Priority = ptr(-1) }},
	"start": {
		func(r *request) { r.RunAfter = ptr(at) },
		func(r *request) { r.RunAfter = ptr(at.Add(time.Microsecond)) },
		func(r *request) { r.Delay = ptr(time.Minute) },
		func(r *request) { r.Delay = ptr(2 * time.Minute) },
		func(r *request) { r.Delay = ptr(time.Duration(0)) },
	},
	"active key":    {func(r *request) { r.ActiveKey = ptr("a") }, func(r *request) { r.ActiveKey = ptr("b") }},
	"resource keys": {func(r *request) { r.ResourceKeys = []string{"a", "b"} }, func(r *request) { r.ResourceKeys = []string{"b", "a"} }, func(r *request) { r.ResourceKeys = []string{"a,b"} }},
	"metadata":      {func(r *request) { r.Metadata = json.RawMessage(`{"a": 1}`) }, func(r *request) { r.Metadata = json.RawMessage(`{"a": 2}`) }},
}

// W5: a request differs by each of these fields, in both orders.
func TestW5_Fields(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for field, changes := range requestFields {
		t.Run(field, func(t *testing.T) {
			changes := append([]func(*request){func(*request) {}}, changes...)
			for i, one := range changes {
				for j, other := range changes {
					e := e.scope()
					first, second := e.window("w", time.Hour), e.window("w", time.Hour)
					one(&first)
					other(&second)
					id := e.create(t, first)
					got := tryEnqueue(t, e.pool, second)
					if i == j {
						wantReused(t, got, id, map[bool]gen.DuplicateMatch{true: "WINDOW", false: "BOTH"}[first.ActiveKey == nil])
						continue
					}
					wantRefusal(t, got, "PQ001")
					if *got.ConflictingTaskID != id {
						t.Errorf("%d, %d: the refusal is %s, want task %s", i, j, show(got), id)
					}
				}
			}
		})
	}
}

// W5: the task's name and the window key are in the fingerprint too, though the scope of the key keeps them from meeting.
func TestW5_Fingerprint(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	seen := map[string]string{}
	for name, call := range map[string]string{
		"plain":              "'send', window_key => 'w'",
		"other task":         "'bill', window_key => 'w'",
		"other window key":   "'send', window_key => 'v'",
		"it is another kind": "'send', active_key => 'w'",
		"other queue":        "'send', window_key => 'w', queue => 'q'",
	} {
		print := value[string](t, e.pool, "select encode(pgqueue.fingerprint("+call+"), 'hex')")
		if other, twice := seen[print]; twice || len(print) != 64 {
			t.Errorf("%s has the fingerprint %s, as %s", name, print, other)
		}
		seen[print] = name
	}
	id := e.create(t, e.window("w", time.Hour))
	stored := value[string](t, e.pool, "select encode(fingerprint, 'hex') from pgqueue.unique_window where task_id = $1::uuid", id.String())
	if seen[stored] != "plain" {
		t.Errorf("the stored fingerprint is %s", stored)
	}
}

// W5: what is one request: an instant in any time zone, a delay in any unit of its own kind, left out and given defaults, object
// keys in any order.
func TestW5_Same(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, pair := range map[string][2]string{
		"time zones":        {"run_after => '2040-01-01 12:00+00'", "run_after => '2040-01-01 14:30+02:30'"},
		"units of a delay":  {"delay => '90 seconds'", "delay => '00:01:30'"},
		"months of a delay": {"delay => '1 year'", "delay => '12 months'"},
		"defaults":          {"queue => 'default', priority => 0, payload => 'null'", "wait => true"},
		"object keys":       {`payload => '{"a": 1, "bb": {"c": [], "d": "e"}}'`, `payload => '{"bb":{"d":"\u0065","c":[]},"a":0,"a":1}'`},
		"metadata":          {`metadata => '{"a": 1, "b": 2}'`, `metadata => '{"b": 2, "a": 1}'`},
	} {
		e := e.scope()
		call := func(arguments string) (id, match string) {
			err := e.pool.QueryRow(t.Context(), "select (r).task_id::text, coalesce((r).duplicate_match::text, '') from (select pgqueue.enqueue_unique('send', "+
				arguments+", window_key => 'w', window_length => '1 hour', namespace => '"+e.ns+"') as r) x").Scan(&id, &match)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return id, match
		}
		first, _ := call(pair[0])
		if second, match := call(pair[1]); second != first || match != "WINDOW" {
			t.Errorf("%s: %s and %s, %s", name, first, second, match)
		}
	}
}

// W6, case_C34: a difference only in policy is drift: the existing task is returned and keeps its own policy.
func TestW6_PolicyDrift(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for field, change := range map[string]func(*request){
		"max_attempts": func(r *request) { r.MaxAttempts = ptr(5) },
		"backoff":      func(r *request) { r.Backoff = ptr(time.Minute) },
		"max_backoff":  func(r *request) { r.MaxBackoff = ptr(2 * time.Hour) },
		"timeout":      func(r *request) { r.Timeout = ptr(time.Minute) },
		"lease":        func(r *request) { r.Lease = ptr(time.Minute) },
	} {
		t.Run(field, func(t *testing.T) {
			for _, changed := range []string{"second", "first", "both", "first and pruned"} {
				e := e.scope()
				first, second := e.window("w", time.Hour), e.window("w", time.Hour)
				if changed != "second" {
					change(&first)
				}
				if changed == "second" || changed == "both" {
					change(&second)
				}
				id := e.create(t, first)
				before := e.task(t, id)
				if changed == "first and pruned" {
					e.discard(t, e.pool, id)
					e.prune(t, e.pool)
				}
				got := e.enqueue(t, second)
				wantReused(t, got, id, gen.DuplicateMatchWindow)
				if *got.PolicyDrift != (changed != "both") {
					t.Errorf("%s changed: policy_drift = %v", changed, *got.PolicyDrift)
				}
				if changed != "first and pruned" && show(e.task(t, id)) != show(before) {
					t.Errorf("%s changed: the task went from %s to %s", changed, show(before), show(e.task(t, id)))
				}
			}
		})
	}
}

// W6: a policy that is spelled out, but is the default, is no other policy.
func TestW6_DefaultIsNoDrift(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.create(t, e.window("w", time.Hour))
	explicit := e.window("w", time.Hour)
	explicit.MaxAttempts, explicit.Backoff, explicit.MaxBackoff = ptr(10), ptr(5*time.Second), ptr(time.Hour)
	got := e.enqueue(t, explicit)
	wantReused(t, got, id, gen.DuplicateMatchWindow)
	if *got.PolicyDrift {
		t.Error("the default, given explicitly, counts as another policy")
	}
}

// W6: what took an expired window over sets the policy to compare with.
func TestW6_DriftAfterTakeover(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	old, renewed := e.window("w", time.Hour), e.window("w", time.Hour)
	renewed.MaxAttempts = ptr(5)
	e.create(t, old)
	clock.forward(t, time.Hour)
	id := e.create(t, renewed)
	for _, r := range []request{old, renewed} {
		got := e.enqueue(t, r)
		wantReused(t, got, id, gen.DuplicateMatchWindow)
		if *got.PolicyDrift != (r.MaxAttempts == nil) {
			t.Errorf("max_attempts %s: policy_drift = %v", show(r.MaxAttempts), *got.PolicyDrift)
		}
	}
}

// W7: a window key is scoped to (namespace, task name).
func TestW7_Scope(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	otherTask := e.window("w", time.Hour)
	otherTask.TaskName = "other"
	active := e.active("w")
	seen := map[uuid.UUID]bool{}
	for _, r := range []request{e.window("w", time.Hour), otherTask, e.scope().window("w", time.Hour), active} {
		seen[e.create(t, r)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d tasks, want 4", len(seen))
	}
}

// W8: forget_window frees an open window early, and only that.
func TestW8_ForgetWindow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.window("w", time.Hour)
	other := e.window("v", time.Hour)
	id, kept := e.create(t, r), e.create(t, other)
	e.settle(t, kept, gen.TaskStatusDiscarded)
	e.settle(t, id, gen.TaskStatusFailed)
	forget := func(name, key string, ns *string) bool {
		t.Helper()
		forgotten, err := gen.ForgetWindow(t.Context(), e.pool, gen.ForgetWindowParams{TaskName: name, WindowKey: key, Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		return forgotten
	}
	if forget("other", "w", &e.ns) || forget("send", "x", &e.ns) || forget("send", "w", nil) {
		t.Error("another window was forgotten")
	}
	wantReused(t, e.enqueue(t, r), id, gen.DuplicateMatchWindow)
	if !forget("send", "w", &e.ns) || forget("send", "w", &e.ns) {
		t.Error("the answer should be true once")
	}
	e.create(t, r)
	wantReused(t, e.enqueue(t, other), kept, gen.DuplicateMatchWindow)
}
