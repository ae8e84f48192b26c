package integration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// B1: one outcome for each item in input order; a later item that matches an earlier one is REUSED with its id. On both paths:
// one item with a window brings the exact one.
func TestB1_InputOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, path := range []string{"set-based", "exact"} {
		t.Run(path, func(t *testing.T) {
			e := e.scope()
			held := e.create(t, e.active("held"))
			running := e.claim(t, e.pool, e.lease(t, time.Minute), held)
			settled := e.create(t, e.active("settled"))
			e.discard(t, e.pool, settled)

			plain := batchItem{request: request{TaskName: "plain", Payload: json.RawMessage(`1`), Namespace: &e.ns}}
			derived := batchItem{plain.request, true}
			other := batchItem{e.active("b"), false}
			other.Payload, other.Priority, other.Queue, other.Delay = json.RawMessage(`"other"`), ptr(9), ptr("q"), ptr(time.Hour)
			all := append(e.actives("b", "held", "a", "settled"), plain, other, plain, derived, derived)
			all = append(all, e.actives("a", "settled", "held")...)
			if path == "exact" {
				all = append(all, batchItem{request: e.window("w", time.Hour)}, batchItem{request: e.window("w", time.Hour)})
			}
			conn := e.session(t, readCommitted)
			exec(t, conn, "begin")
			got := e.enqueueMany(t, conn, all)
			if shared, exclusive := bucketLocks(t, conn); (shared > 0) != (path == "set-based") || (exclusive > 0) != (path == "exact") {
				t.Errorf("%d shared and %d exclusive bucket locks: the batch went another way", shared, exclusive)
			}
			exec(t, conn, "commit")
			for _, i := range []int{0, 2, 3, 4, 6, 7} {
				wantCreated(t, got[i])
			}
			for i, first := range map[int]int{5: 0, 8: 7, 9: 2, 10: 3} {
				wantReused(t, got[i], *got[first].TaskID, gen.DuplicateMatchActive)
			}
			wantReused(t, got[1], held, gen.DuplicateMatchActive)
			wantReused(t, got[11], held, gen.DuplicateMatchActive)
			if path == "exact" {
				wantReused(t, got[13], wantCreated(t, got[12]), gen.DuplicateMatchWindow)
			}
			// A5: the answers are the stored rows, of earlier items too.
			if got[1].Status != gen.TaskStatusRunning || *got[1].Attempt != running.Attempt {
				t.Errorf("the running holder is answered as %s", show(got[1]))
			}
			if got[5].Status != gen.TaskStatusReady || *got[5].Queue != "default" || *got[5].Priority != 0 || !got[5].RunAfter.Equal(*got[0].RunAfter) {
				t.Errorf("the duplicate of item 1 is answered as %s, it was created as %s", show(got[5]), show(got[0]))
			}
			// A7: the first payload stays.
			if task := e.task(t, *got[0].TaskID); string(task.Payload) != "null" {
				t.Errorf("the stored payload is %s", task.Payload)
			}
			for _, r := range got {
				if stored := e.task(t, *r.TaskID); stored.Queue != *r.Queue || stored.Priority != *r.Priority ||
					!stored.RunAfter.Equal(*r.RunAfter) || !stored.CreatedAt.Equal(*r.CreatedAt) || stored.Status != r.Status {
					t.Errorf("the receipt is %s, the task %s", show(r), show(stored))
				}
			}
			checkInvariants(t, e.pool)
		})
	}
}

// B1, L1: tasks of one batch that are due at the same time are claimed, whole, in some order, and each once.
func TestB1_EveryCreatedTaskIsClaimed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	all := e.actives("a", "b", "a")
	all = append(all, batchItem{request: request{TaskName: "plain"}}, batchItem{request: e.window("w", time.Hour)})
	got := e.enqueueMany(t, e.pool, all)
	claimed, err := gen.Claim(t.Context(), e.pool, gen.ClaimParams{LeaseID: e.lease(t, time.Minute), MaxTasks: ptr(10), Namespace: &e.ns})
	if err != nil || len(claimed) != 4 {
		t.Fatalf("claimed %s, %v", show(claimed), err)
	}
	for _, task := range claimed {
		if !slices.Contains(ids(got), task.ID) {
			t.Errorf("task %s was claimed and is in no receipt", task.ID)
		}
	}
}

// B1, B2, case_C47: of 1,000 inputs 3 are active already: 997 created and 3 reused, in order. A conflict at item 500 fails the
// whole batch, with no row and no lock left; or it alone is refused and the rest go on.
func TestCase_C47_OneDuplicateOrConflictAmongThousand(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 1000
	duplicates := map[int]uuid.UUID{}
	var all []batchItem
	for i := range n {
		all = append(all, e.actives(fmt.Sprint(i))...)
		if i == 0 || i == 400 || i == 999 {
			duplicates[i] = e.create(t, all[i].request)
		}
	}
	// before is how many tasks there were.
	check := func(t *testing.T, db gen.DB, got []gen.Receipt, refused, before int) {
		t.Helper()
		seen := map[uuid.UUID]bool{}
		for i, r := range got {
			if id, held := duplicates[i]; held {
				wantReused(t, r, id, gen.DuplicateMatchActive)
			} else if i == refused {
				wantRefusal(t, r, "PQ001")
			} else {
				seen[wantCreated(t, r)] = true
			}
		}
		want := n - len(duplicates)
		if refused >= 0 {
			want--
		}
		stored := value[int](t, db, "select count(*) from pgqueue.task where namespace = $1::text", e.ns)
		if len(seen) != want || stored != before+want {
			t.Errorf("%d tasks created, %d stored, want %d new ones", len(seen), stored-before, want)
		}
		checkInvariants(t, db)
	}

	conflicting := slices.Clone(all)
	conflicting[499] = batchItem{request: e.window("w", time.Hour)}
	conflicting[499].Payload = json.RawMessage(`"another"`)
	first := e.create(t, e.window("w", time.Hour))
	rows := e.rows(t)
	conn := e.session(t, readCommitted)
	_, err := gen.EnqueueMany(t.Context(), conn, e.batch(conflicting))
	failed := wantError(t, err, "PQ001")
	var detail struct {
		Ordinal int       `json:"ordinal"`
		TaskID  uuid.UUID `json:"task_id"`
	}
	if err := json.Unmarshal([]byte(failed.Detail), &detail); err != nil || detail.Ordinal != 500 || detail.TaskID != first ||
		!strings.HasPrefix(failed.Message, "item 500: uniqueness_conflict") || failed.Hint == "" {
		t.Errorf("the error is %s, %s, %s", failed.Message, failed.Detail, failed.Hint)
	}
	if after := e.rows(t); after != rows {
		t.Errorf("%d rows were written", after-rows)
	}
	if n := value[int](t, e.pool, "select count(*) from pg_catalog.pg_locks where pid = $1::integer and locktype <> 'virtualxid'", int32(conn.PgConn().PID())); n != 0 {
		t.Errorf("%d locks are left", n)
	}

	t.Run("continue", func(t *testing.T) {
		exec(t, conn, "begin")
		check(t, conn, e.enqueueMany(t, conn, conflicting, continueOnConflict), 499, 4)
		exec(t, conn, "rollback")
	})
	check(t, conn, e.enqueueMany(t, conn, all), -1, 4)
}

// B2: every kind of refusal fails the batch, or stays with its item, beside items of all kinds.
func TestB2_Refusals(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tooLong := strings.Repeat("k", 513)
	for name, refusal := range map[string]struct {
		code   string
		change func(*request)
	}{
		"empty key":    {"PQ006", func(r *request) { r.ActiveKey = ptr("") }},
		"long key":     {"PQ006", func(r *request) { r.ActiveKey = &tooLong }},
		"control":      {"PQ006", func(r *request) { r.WindowKey, r.WindowLength = ptr("\u0085"), ptr(time.Hour) }},
		"no window":    {"PQ007", func(r *request) { r.WindowKey = ptr("w") }},
		"empty window": {"PQ007", func(r *request) { r.WindowKey, r.WindowLength = ptr("w"), ptr(time.Duration(0)) }},
		"priority":     {"22023", func(r *request) { r.Priority = ptr(101) }},
		"delay":        {"22023", func(r *request) { r.Delay = ptr(-time.Second) }},
		"two starts":   {"22023", func(r *request) { r.Delay, r.RunAfter = ptr(time.Second), ptr(at) }},
		"attempts":     {"22023", func(r *request) { r.MaxAttempts = ptr(0) }},
		"backoff":      {"22023", func(r *request) { r.Backoff = ptr(time.Duration(0)) }},
		"queue":        {"22023", func(r *request) { r.Queue = ptr("") }},
		"no name":      {"22023", func(r *request) { r.TaskName = "" }},
		"resource key": {"22023", func(r *request) { r.ResourceKeys = []string{""} }},
		"size":         {"22023", func(r *request) { r.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) }},
		"digits": {"22023", func(r *request) {
			r.Payload = json.RawMessage(`[1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071]`)
		}},
		"conflict": {"PQ001", func(r *request) { r.WindowKey, r.WindowLength = ptr("other"), ptr(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := e.scope()
			open := e.window("other", time.Hour)
			open.Payload = json.RawMessage(`"other"`)
			e.create(t, open)
			bad := request{TaskName: "send", Namespace: &e.ns}
			refusal.change(&bad)
			all := append(e.actives("a", "b"), batchItem{request: bad}, batchItem{request: e.active("a")})
			rows := e.rows(t)
			_, err := gen.EnqueueMany(t.Context(), e.pool, e.batch(all))
			if failed := wantError(t, err, refusal.code); !strings.HasPrefix(failed.Message, "item 3: ") {
				t.Errorf("the message is %q", failed.Message)
			}
			if after := e.rows(t); after != rows {
				t.Errorf("%d rows were written", after-rows)
			}
			got := e.enqueueMany(t, e.pool, all, continueOnConflict)
			wantRefusal(t, got[2], refusal.code)
			wantCreated(t, got[1])
			wantReused(t, got[3], wantCreated(t, got[0]), gen.DuplicateMatchActive)
			// B3: word for word what the single call says.
			single, err := gen.TryEnqueue(t.Context(), e.pool, gen.TryEnqueueParams(bad))
			if err != nil || *single.ErrorMessage != *got[2].ErrorMessage || string(single.ErrorDetail) != string(got[2].ErrorDetail) {
				t.Errorf("the batch says %s, the single call %s, %v", show(got[2]), show(single), err)
			}
		})
	}
}
