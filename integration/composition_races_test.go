package integration_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// C1, C3, C5: two sessions whose requests share only one of the two keys. The second waits for the first and then acts on what
// it committed.
func TestC5_RacingOverOneOfTheKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, test := range map[string]struct {
		second func(e *env, r request) request
		commit string // the second's answer when the first commits
	}{
		"only the active key": {func(e *env, _ request) request { return e.active("k") }, "ACTIVE"},
		"only the window key": {func(e *env, _ request) request { return e.window("w", time.Hour) }, "PQ001"},
		"another window key": {func(_ *env, r request) request {
			r.WindowKey = ptr("w2")
			return r
		}, "ACTIVE"},
		"another active key": {func(_ *env, r request) request {
			r.ActiveKey = ptr("k2")
			return r
		}, "PQ001"},
		"another payload": {func(_ *env, r request) request {
			r.Payload = json.RawMessage(`2`)
			return r
		}, "PQ001"},
	} {
		for _, end := range []string{"commit", "rollback"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				e := e.scope()
				r := e.window("w", time.Hour)
				r.ActiveKey, r.Payload = ptr("k"), json.RawMessage(`1`)
				second := test.second(e, r)

				first := e.session(t, readCommitted)
				exec(t, first, "begin")
				id := wantCreated(t, enqueue(t, first, r))
				done := e.blocked(t, e.session(t, readCommitted), second)
				exec(t, first, end)
				got := wait(t, done)
				switch {
				case end == "commit" && test.commit == "PQ001":
					wantError(t, got.err, "PQ001")
				case got.err != nil:
					t.Fatal(got.err)
				case end == "commit":
					wantReused(t, got.receipt, id, gen.DuplicateMatchActive)
					if second.WindowKey != nil { // C1: linked
						wantReused(t, e.enqueue(t, second), id, gen.DuplicateMatchBoth)
					}
				default:
					wantCreated(t, got.receipt)
				}
				if n := e.tasks(t); n != 1 {
					t.Errorf("%d tasks", n)
				}
				checkInvariants(t, e.pool)
			})
		}
	}
}

// C3: a conflict is one at a moment. The gate looks at the window and at the active key in two statements; here the window ends
// between them, and the same request, sent by another session, begins the next window and takes the key.
func TestC3_WindowEndsBetweenTheTwoLooks(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	r := e.window("w", time.Hour)
	r.ActiveKey = ptr("k")
	clock.stop(t, noon)
	e.discard(t, e.pool, e.create(t, r))

	// The clock is read before the first look, and between the two.
	exec(t, e.pool, "create sequence pgqueue_test.looks")
	exec(t, e.pool, "alter function pgqueue._now() rename to _running")
	exec(t, e.pool, `create function pgqueue._now() returns timestamptz language plpgsql volatile as $$
		declare
			v_now timestamptz := pgqueue._running();
		begin
			if current_setting('application_name') = 'stopped' and nextval('pgqueue_test.looks') = 2 then
				perform pg_advisory_xact_lock(7);
			end if;
			return v_now;
		end $$`)
	gate, stopped := e.session(t, readCommitted), e.session(t, readCommitted, pgtest.RuntimeParam("application_name", "stopped"))
	exec(t, gate, "select pg_advisory_lock(7)")
	done := e.blocked(t, stopped, r)
	clock.stop(t, noon.Add(time.Hour))
	next := e.create(t, r)
	exec(t, gate, "select pg_advisory_unlock(7)")
	got := wait(t, done)
	if got.err != nil {
		t.Fatal(got.err)
	}
	wantReused(t, got.receipt, next, gen.DuplicateMatchBoth)
	checkInvariants(t, e.pool)
}

// C1, W2: a linked window counts from the link, not from the holder's own beginning, and ends on its own.
func TestC1_LinkHasItsOwnWindow(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	clock.stop(t, start)
	holder := e.create(t, e.active("k"))
	clock.forward(t, 10*time.Minute)
	r := e.window("w", time.Hour)
	r.ActiveKey = ptr("k")
	wantReused(t, e.enqueue(t, r), holder, gen.DuplicateMatchActive)
	e.discard(t, e.pool, holder)
	clock.stop(t, start.Add(70*time.Minute-time.Microsecond))
	wantReused(t, e.enqueue(t, r), holder, gen.DuplicateMatchWindow)
	clock.stop(t, start.Add(70*time.Minute))
	e.create(t, r)
	checkInvariants(t, e.pool)
}

// C1, W6: the link compares policies with the holder's own.
func TestC1_LinkReportsPolicyDrift(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.active("k")
	first.MaxAttempts = ptr(3)
	holder := e.create(t, first)
	for i, attempts := range []int{3, 4} {
		r := e.window(string(rune('a'+i)), time.Hour)
		r.ActiveKey, r.MaxAttempts = ptr("k"), &attempts
		for _, match := range []gen.DuplicateMatch{gen.DuplicateMatchActive, gen.DuplicateMatchBoth} {
			got := e.enqueue(t, r)
			wantReused(t, got, holder, match)
			if *got.PolicyDrift != (attempts == 4) {
				t.Errorf("%s, %d attempts: policy_drift = %v", match, attempts, *got.PolicyDrift)
			}
		}
	}
	if task := e.task(t, holder); task.MaxAttempts != 3 {
		t.Errorf("max_attempts became %d", task.MaxAttempts)
	}
}
