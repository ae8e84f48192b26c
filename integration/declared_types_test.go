package integration_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// refusedWith is the code of a refusal in any of its forms, "" for none.
func refusedWith(r gen.Receipt, err error) string {
	var queue *pgqueue.Error
	var server *pgconn.PgError
	switch {
	case errors.As(err, &queue):
		return queue.Code
	case errors.As(err, &server):
		return server.Code
	case err != nil:
		return err.Error()
	case r.ErrorCode != nil:
		return *r.ErrorCode
	}
	return ""
}

// D1, B3: every way to enqueue a declared type goes through the gate: the selected keys hold, and what has no key is refused.
func TestD1_B3_EveryWayPassesTheGate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, first := range ways() {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			e := e.scope()
			e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("$.id")})
			e.declare(t, gen.DeclareTaskParams{TaskName: "whole", ActiveKeySelector: ptr("$")})
			e.declare(t, gen.DeclareTaskParams{TaskName: "window", WindowKeySelector: ptr("$.id"), WindowLength: ptr(time.Hour)})
			e.declare(t, gen.DeclareTaskParams{TaskName: "required", ActiveKeyRequired: ptr(true)})
			e.declare(t, gen.DeclareTaskParams{TaskName: "required window", WindowKeyRequired: ptr(true), WindowLength: ptr(time.Hour)})
			for name, match := range map[string]gen.DuplicateMatch{
				"active": "ACTIVE", "whole": "ACTIVE", "window": "WINDOW", "required": "ACTIVE", "required window": "WINDOW",
			} {
				r := e.typed(name, `{"id": 7}`)
				switch name {
				case "required":
					r.ActiveKey = ptr("k")
				case "required window":
					r.WindowKey = ptr("k")
				}
				made, err := first.call(t.Context(), e.pool, r)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				id := wantCreated(t, made)
				for _, second := range ways() {
					got, err := second.call(t.Context(), e.pool, r)
					if err != nil {
						t.Fatalf("%s by %s: %v", name, second.name, err)
					}
					wantReused(t, got, id, match)
				}
				if name == "whole" {
					continue
				}
				without := e.typed(name, `{}`)
				if code := refusedWith(first.call(t.Context(), e.pool, without)); code != "PQ004" {
					t.Errorf("%s without its key: %q", name, code)
				}
			}
			checkInvariants(t, e.pool)
		})
	}
}

// D1: there is no other way: these are all functions of the schema that write tasks, and whoever adds one adds it to the test above.
func TestD1_NoWayAround(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	got := value[[]string](t, e.pool, `
		select array_agg(distinct p.proname::text order by p.proname::text)
		from pg_catalog.pg_proc p
		where p.pronamespace = 'pgqueue'::regnamespace and p.prosrc ~* 'insert\s+into\s+pgqueue\.task\M'`)
	if want := []string{"_batch_set", "_gate", "_window_gate"}; !slices.Equal(got, want) {
		t.Errorf("tasks are inserted by %v, want %v", got, want)
	}
	got = value[[]string](t, e.pool, `
		select array_agg(distinct p.proname::text order by p.proname::text)
		from pg_catalog.pg_proc p
		where p.pronamespace = 'pgqueue'::regnamespace and left(p.proname, 1) <> '_' and p.prosrc ~ '\m(_gate|_window_gate|_batch_set|_batch_sequence)\M'`)
	if want := []string{"enqueue", "enqueue_many", "enqueue_unique", "try_enqueue", "try_enqueue_unique"}; !slices.Equal(got, want) {
		t.Errorf("tasks are enqueued by %v, want %v", got, want)
	}
}

// D1: the defaults of the type: what the call gives goes before, and each part of the policy by itself. Through every function.
func TestD1_Defaults(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", Queue: ptr("typed"), Priority: ptr(-7), MaxAttempts: ptr(3),
		Backoff: ptr(2 * time.Second), MaxBackoff: ptr(time.Minute), Timeout: ptr(1500 * time.Millisecond), Lease: ptr(time.Hour)})
	for _, way := range ways() {
		got, err := way.call(t.Context(), e.pool, e.typed("send", `1`))
		if err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		task := e.task(t, wantCreated(t, got))
		if task.Queue != "typed" || task.Priority != -7 || task.MaxAttempts != 3 || task.ActiveKey == nil != !strings.HasSuffix(way.name, "unique") ||
			string(task.Policy) != `{"lease": 3600000, "backoff": 2000, "timeout": 1500, "max_backoff": 60000}` {
			t.Errorf("%s: the task is %s", way.name, show(task))
		}
		if strings.HasSuffix(way.name, "unique") {
			e.discard(t, e.pool, task.ID)
		}
	}
	own := e.typed("send", `2`)
	own.Queue, own.Priority, own.MaxAttempts, own.Backoff = ptr("own"), ptr(5), ptr(1), ptr(time.Second)
	receipts := []gen.Receipt{e.enqueue(t, own)}
	own.Payload = json.RawMessage(`3`)
	receipts = append(receipts, e.enqueueMany(t, e.pool, []batchItem{{request: own}})...)
	for _, r := range receipts {
		task := e.task(t, wantCreated(t, r))
		if task.Queue != "own" || task.Priority != 5 || task.MaxAttempts != 1 ||
			string(task.Policy) != `{"lease": 3600000, "backoff": 1000, "timeout": 1500, "max_backoff": 60000}` {
			t.Errorf("the task is %s", show(task))
		}
	}

	// The policy of the type acts: its lease holds the task, its backoff sets the time of the second attempt.
	lease := e.lease(t, 100*time.Millisecond)
	claimed, err := gen.Claim(t.Context(), e.pool, gen.ClaimParams{LeaseID: lease, Queues: []string{"typed"}, Namespace: &e.ns})
	if err != nil || len(claimed) != 1 || claimed[0].Timeout == nil || *claimed[0].Timeout != 1500*time.Millisecond {
		t.Fatalf("claimed %s, %v", show(claimed), err)
	}
	exec(t, e.pool, `update pgqueue.lease set renewed_at = renewed_at - interval '59 minutes', expires_at = expires_at - interval '59 minutes'
		where namespace = $1::text`, e.ns)
	if reaped := e.reap(t, e.pool); reaped.Requeued != 0 {
		t.Errorf("reaped %s before the lease of the type was over", show(reaped))
	}
	failure, err := gen.Fail(t.Context(), e.pool, gen.FailParams{TaskID: claimed[0].ID, LeaseNumber: claimed[0].LeaseNumber, Error: "boom", Namespace: &e.ns})
	if err != nil || failure.RunAfter == nil {
		t.Fatalf("%s, %v", show(failure), err)
	}
	wait := value[float64](t, e.pool, `select extract(epoch from t.run_after - a.finished_at)::float8
		from pgqueue.task t join pgqueue.attempt a on a.task_id = t.id where t.id = $1::uuid`, claimed[0].ID.String())
	if wait < 1.79 || wait > 2.21 {
		t.Errorf("the second attempt is %v s later", wait)
	}

	// Tasks that are enqueued already keep what they have; new ones take the new declaration.
	e.declare(t, gen.DeclareTaskParams{TaskName: "send"})
	if task := e.task(t, claimed[0].ID); task.MaxAttempts != 3 || task.Queue != "typed" {
		t.Errorf("the new declaration changed %s", show(task))
	}
	if task := e.task(t, e.create(t, e.typed("send", `4`))); task.Queue != "default" || task.Priority != 0 || task.MaxAttempts != 10 || task.Policy != nil {
		t.Errorf("the task is %s", show(task))
	}
}

// D1, P1: the type's own limit of the payload, smaller or larger than the usual one.
func TestD1_P1_PayloadLimit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.declare(t, gen.DeclareTaskParams{TaskName: "small", MaxPayloadBytes: ptr(10)})
	e.declare(t, gen.DeclareTaskParams{TaskName: "large", MaxPayloadBytes: ptr(2 << 20)})
	large := `"` + strings.Repeat("x", 2<<20-2) + `"`
	for _, way := range ways() {
		for payload, want := range map[string]string{`"12345678"`: "", `"123456789"`: "22023", large: ""} {
			name := "small"
			if payload == large {
				name = "large"
			}
			got, err := way.call(t.Context(), e.pool, e.typed(name, payload))
			if code := refusedWith(got, err); code != want {
				t.Errorf("%s, %d bytes: %q, want %q", way.name, len(payload), code, want)
			}
		}
	}
	got := tryEnqueue(t, e.pool, e.typed("small", `"123456789"`))
	if *got.ErrorMessage != `payload has 11 bytes, at most 10 are allowed for task "small"` {
		t.Errorf("the message is %s", *got.ErrorMessage)
	}
	wantRefusal(t, tryEnqueue(t, e.pool, e.typed("large", large[:len(large)-1]+`x"`)), "22023")
}

// D5: types without declared keys take keys per call, or none; also when their defaults are declared. A declaration holds in its
// namespace only.
func TestD5_WithoutDeclaredKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.declare(t, gen.DeclareTaskParams{TaskName: "declared", Queue: ptr("q"), ActiveKeyRequired: ptr(false), WindowKeyRequired: ptr(false)})
	other := e.scope()
	other.declare(t, gen.DeclareTaskParams{TaskName: "plain", ActiveKeyRequired: ptr(true)})
	for _, name := range []string{"declared", "plain"} {
		for _, way := range ways() {
			e := e.scope()
			if name == "declared" {
				e.declare(t, gen.DeclareTaskParams{TaskName: "declared", Queue: ptr("q")})
			}
			call := func(r request) gen.Receipt {
				got, err := way.call(t.Context(), e.pool, r)
				if err != nil {
					t.Fatalf("%s by %s: %v", name, way.name, err)
				}
				return got
			}
			r := e.typed(name, `1`)
			if !strings.HasSuffix(way.name, "unique") {
				wantCreated(t, call(r))
				wantCreated(t, call(r))
			}
			r.ActiveKey = ptr("k")
			id := wantCreated(t, call(r))
			wantReused(t, call(r), id, gen.DuplicateMatchActive)
			r.ActiveKey, r.WindowKey, r.WindowLength = nil, ptr("k"), ptr(time.Minute)
			id = wantCreated(t, call(r))
			wantReused(t, call(r), id, gen.DuplicateMatchWindow)
		}
	}
}

// D7: a schedule on a unique type is warned of.
func TestD7_ScheduleWarning(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hour := time.Hour
	for name, c := range map[string]struct {
		declared *gen.DeclareTaskParams
		want     string
	}{
		"unknown":  {nil, ""},
		"plain":    {&gen.DeclareTaskParams{Queue: ptr("q")}, ""},
		"active":   {&gen.DeclareTaskParams{ActiveKeySelector: ptr("$.id")}, "(active key)"},
		"required": {&gen.DeclareTaskParams{ActiveKeyRequired: ptr(true)}, "(active key)"},
		"window":   {&gen.DeclareTaskParams{WindowKeySelector: ptr("$"), WindowLength: &hour}, "(window key)"},
		"both":     {&gen.DeclareTaskParams{ActiveKeySelector: ptr("$"), WindowKeyRequired: ptr(true), WindowLength: &hour}, "(active key and window key)"},
	} {
		if c.declared != nil {
			c.declared.TaskName = name
			e.declare(t, *c.declared)
		}
		got, err := gen.ScheduleWarning(t.Context(), e.pool, gen.ScheduleWarningParams{TaskName: name, Namespace: &e.ns})
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case (c.want == "") != (got == nil):
			t.Errorf("%s: the warning is %s", name, show(got))
		case got != nil && (!strings.Contains(*got, c.want) || !strings.Contains(*got, `"`+name+`"`) || !strings.Contains(*got, "coalesces")):
			t.Errorf("%s: the warning is %s", name, *got)
		}
		if elsewhere, err := gen.ScheduleWarning(t.Context(), e.pool, gen.ScheduleWarningParams{TaskName: name}); err != nil || elsewhere != nil {
			t.Errorf("%s in another namespace: %s, %v", name, show(elsewhere), err)
		}
	}
}
