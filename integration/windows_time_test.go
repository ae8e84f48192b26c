package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
)

var noon = time.Date(2030, 6, 15, 12, 0, 0, 0, time.UTC)

// W1, W8, case_C37, case_C38: the window answers with its task for its whole length, whatever became of the task.
func TestW1_W8_TheWindowOutlivesItsTask(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, status := range settled {
		t.Run(string(status), func(t *testing.T) {
			e := e.scope()
			r := e.window("w", time.Hour)
			created := e.enqueue(t, r)
			id := wantCreated(t, created)
			wantReused(t, e.enqueue(t, r), id, gen.DuplicateMatchWindow)
			e.settle(t, id, status)
			got := e.enqueue(t, r)
			wantReused(t, got, id, gen.DuplicateMatchWindow)
			if got.Status != status || !got.CreatedAt.Equal(*created.CreatedAt) || got.Queue == nil || *got.PolicyDrift {
				t.Errorf("the receipt is %s", show(got))
			}
			// W7: independent of retention; a pruned task still has its id, and no status.
			if pruned := e.prune(t, e.pool); pruned.Tasks != 1 || pruned.Windows != 0 {
				t.Fatalf("pruned %s", show(pruned))
			}
			for _, got := range []gen.Receipt{e.enqueue(t, r), tryEnqueue(t, e.pool, r)} {
				wantReused(t, got, id, gen.DuplicateMatchWindow)
				if got.Status != "" || got.Queue != nil || got.Priority != nil || got.RunAfter != nil || got.Attempt != nil || got.CreatedAt != nil {
					t.Errorf("the receipt is %s, want nothing but the id", show(got))
				}
			}
			if n := e.tasks(t); n != 0 {
				t.Errorf("%d tasks", n)
			}
		})
	}
}

// W2, case_C35, case_C36: the window is half open, counts from the first acceptance and does not slide.
func TestW2_HalfOpenAndFixed(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	const length = time.Minute
	r := e.window("w", length)
	start := noon.Add(59*time.Second + 123456*time.Microsecond) // no slots of the clock's minutes
	clock.stop(t, start)
	first := e.create(t, r)
	for _, later := range []time.Duration{0, 2 * time.Second, 40 * time.Second, length - time.Millisecond, length - time.Microsecond} {
		clock.stop(t, start.Add(later))
		wantReused(t, e.enqueue(t, r), first, gen.DuplicateMatchWindow)
		other := r
		other.Priority = ptr(1)
		_, err := gen.EnqueueUnique(t.Context(), e.pool, other)
		wantError(t, err, "PQ001")
	}
	if expires := value[time.Time](t, e.pool, "select expires_at from pgqueue.unique_window"); !expires.Equal(start.Add(length)) {
		t.Errorf("the window ends at %s, want %s", expires, start.Add(length))
	}
	clock.stop(t, start.Add(length))
	second := e.create(t, r)
	clock.stop(t, start.Add(2*length-time.Microsecond))
	wantReused(t, e.enqueue(t, r), second, gen.DuplicateMatchWindow)
	clock.stop(t, start.Add(2*length))
	if pruned := e.prune(t, e.pool); pruned.Windows != 1 {
		t.Errorf("pruned %s", show(pruned))
	}
	e.create(t, r)
}

// W2: a new request may take an expired window over, with its own length.
func TestW2_ExpiredWindowIsFreeForAnotherRequest(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	e.create(t, e.window("w", time.Minute))
	clock.stop(t, noon.Add(time.Minute))
	other := e.window("w", time.Hour)
	other.Queue = ptr("other")
	id := e.create(t, other)
	clock.stop(t, noon.Add(time.Minute+time.Hour-time.Microsecond))
	wantReused(t, e.enqueue(t, other), id, gen.DuplicateMatchWindow)
	_, err := gen.EnqueueUnique(t.Context(), e.pool, e.window("w", time.Minute))
	wantError(t, err, "PQ001")
}

// W2: a later call cannot make the window longer or shorter, and its length is no part of the request.
func TestW2_TheFirstLengthCounts(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	clock.stop(t, noon)
	id := e.create(t, e.window("w", time.Minute))
	wantReused(t, e.enqueue(t, e.window("w", time.Hour)), id, gen.DuplicateMatchWindow)
	wantReused(t, e.enqueue(t, e.window("w", time.Millisecond)), id, gen.DuplicateMatchWindow)
	clock.stop(t, noon.Add(time.Minute-time.Microsecond))
	wantReused(t, e.enqueue(t, e.window("w", time.Millisecond)), id, gen.DuplicateMatchWindow)
	clock.stop(t, noon.Add(time.Minute))
	e.create(t, e.window("w", time.Hour))
}

// W2: the acceptance is the moment of the answer, not the start of the call or of its transaction: an enqueue that waited for
// another transaction counts from the end of the wait.
func TestW2_CountsFromTheAcceptance(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	for name, before := range map[string]func(e *env){
		"free":    func(*env) {},
		"expired": func(e *env) { e.discard(t, e.pool, e.create(t, e.window("w", time.Millisecond))) },
	} {
		for _, answer := range []string{"CREATED", "REUSED"} {
			t.Run(name+"/"+answer, func(t *testing.T) {
				e := e.scope()
				clock.stop(t, noon.Add(-time.Hour))
				before(e)
				clock.stop(t, noon)
				first, second := e.session(t, readCommitted), e.session(t, readCommitted)
				exec(t, first, "begin")
				wantCreated(t, enqueue(t, first, e.active("k")))
				r := e.window("w", time.Minute)
				r.ActiveKey = ptr("k")
				done := e.blocked(t, second, r)
				accepted := noon.Add(10 * time.Minute)
				clock.stop(t, accepted)
				exec(t, first, map[string]string{"CREATED": "rollback", "REUSED": "commit"}[answer])
				got := wait(t, done)
				if got.err != nil || string(got.receipt.Disposition) != answer {
					t.Fatalf("%s, %v", show(got.receipt), got.err)
				}
				if answer == "CREATED" && (!got.receipt.CreatedAt.Equal(accepted) || !got.receipt.RunAfter.Equal(accepted)) {
					t.Errorf("created at %s, due at %s, want %s", got.receipt.CreatedAt, got.receipt.RunAfter, accepted)
				}
				window := value[string](t, e.pool, `select concat_ws(' ', accepted_at = $2::timestamptz, expires_at = $2::timestamptz + interval '1 minute')
					from pgqueue.unique_window where namespace = $1::text`, e.ns, accepted)
				if window != "t t" {
					t.Errorf("accepted and expiring as it should: %s", window)
				}
			})
		}
	}
}

// W2: the server's clock_timestamp(), which runs on inside a transaction.
func TestW2_ClockTimestamp(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	conn := e.session(t, readCommitted)
	exec(t, conn, "begin")
	exec(t, conn, "select now()")
	enqueue(t, conn, e.window("w", time.Hour))
	if late := value[bool](t, conn, `select accepted_at > now() and accepted_at <= clock_timestamp() and expires_at = accepted_at + interval '1 hour'
		from pgqueue.unique_window`); !late {
		t.Error("the window does not begin at the call")
	}
}

// W3, case_C39: there is no default, and bad lengths are refused before anything is written.
func TestW3_Lengths(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, test := range []struct {
		length string // as SQL writes it; NULL for none
		ok     bool
	}{
		{"NULL", false},
		{"0", false}, {"-1 second", false}, {"-1 day 23:00:00", false}, {"1 day -24:00:00", false},
		{"1 month", false}, {"1 year", false}, {"1 month -1 day", false}, {"-1 month 60 days", false}, {"1 year 1 second", false},
		{"3650 days 00:00:00.001", false}, {"3651 days", false}, {"87600:00:00.001", false}, {"2000000000 days", false},
		{"0.5 milliseconds", false}, {"1 microsecond", false}, {"1 second 1 microsecond", false}, {"1.0005 seconds", false},
		{"1 millisecond", true}, {"1.001 seconds", true}, {"1 minute", true}, {"1 day", true}, {"1 day -1 hour", true}, {"365 days", true},
		{"3650 days", true}, {"87600:00:00", true}, {"3649 days 24:00:00", true}, {"521 weeks", true},
	} {
		t.Run(test.length, func(t *testing.T) {
			e := e.scope()
			call := func(function string) string {
				return "select (r).error_code, (r).error_message, (r).disposition::text from (select pgqueue." + function +
					"('send', window_key => 'w', window_length => nullif($1::text, 'NULL')::interval, namespace => $2::text) as r) x"
			}
			var code, message, disposition *string
			err := e.pool.QueryRow(t.Context(), call("try_enqueue_unique"), test.length, e.ns).Scan(&code, &message, &disposition)
			if err != nil {
				t.Fatal(err)
			}
			_, raised := e.pool.Exec(t.Context(), call("enqueue"), test.length, e.ns)
			if test.ok {
				if code != nil || *disposition != "CREATED" || raised != nil {
					t.Errorf("refused: %s, %v", show(message), raised)
				}
				return
			}
			failed := wantError(t, raised, "PQ007")
			if code == nil || *code != "PQ007" || !strings.HasPrefix(*message, "invalid_window: ") || failed.Message != *message {
				t.Errorf("the refusals are %s %s and %s", show(code), show(message), failed.Message)
			}
			if n := e.rows(t); n != 0 {
				t.Errorf("%d rows were written", n)
			}
		})
	}
	// A length without a key.
	r := e.active("k")
	r.WindowLength = ptr(time.Hour)
	_, err := gen.EnqueueUnique(t.Context(), e.pool, r)
	wantError(t, err, "PQ007")
	wantRefusal(t, tryEnqueue(t, e.pool, r), "PQ007")
}

// W9, case_C43: who lost the reply to COMMIT sends the same request again and gets its task; who lost the session before COMMIT
// creates it.
func TestW9_LostReply(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	both := e.window("both", time.Hour)
	both.ActiveKey = ptr("k")
	for match, r := range map[gen.DuplicateMatch]request{gen.DuplicateMatchWindow: e.window("w", time.Hour), gen.DuplicateMatchBoth: both} {
		before := e.tasks(t)
		conn := e.session(t, readCommitted)
		exec(t, conn, "begin")
		lost := wantCreated(t, enqueue(t, conn, r))
		pid := conn.PgConn().PID()
		conn.Close(t.Context())
		waitGone(t, e, pid)

		conn = e.session(t, readCommitted)
		exec(t, conn, "begin")
		id := wantCreated(t, enqueue(t, conn, r))
		exec(t, conn, "commit")
		conn.Close(t.Context())
		wantReused(t, e.enqueue(t, r), id, match)
		if n := e.tasks(t) - before; n != 1 || id == lost {
			t.Errorf("%d tasks", n)
		}
	}
}
