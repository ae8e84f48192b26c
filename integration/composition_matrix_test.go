package integration_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// compositionCell is one cell of C5. The window key points to task A, or pointed to it before it expired; B is another task.
type compositionCell struct {
	window string // none, open same, open other, expired
	active string // free, held by same, held by other, settled
	answer string // CREATED, ACTIVE, WINDOW, BOTH, PQ001, PQ002
	task   string // which task answers: new, A or B; of a refusal the window's
}

var compositionCells = []compositionCell{
	{"none", "free", "CREATED", "new"},
	{"none", "held by same", "ACTIVE", "A"}, // A has the window key of another request beside the active key
	{"none", "held by other", "ACTIVE", "B"},
	{"none", "settled", "CREATED", "new"},
	{"open same", "free", "WINDOW", "A"},
	{"open same", "held by same", "BOTH", "A"},
	{"open same", "held by other", "PQ002", "A"},
	{"open same", "settled", "WINDOW", "A"},
	{"open other", "free", "PQ001", "A"},
	{"open other", "held by same", "PQ001", "A"},
	{"open other", "held by other", "PQ001", "A"},
	{"open other", "settled", "PQ001", "A"},
	{"expired", "free", "CREATED", "new"},
	{"expired", "held by same", "ACTIVE", "A"},
	{"expired", "held by other", "ACTIVE", "B"},
	{"expired", "settled", "CREATED", "new"},
}

const compositionWindow = time.Hour

// composition is a cell brought about in a namespace of its own.
type composition struct {
	compositionCell
	e       *env
	request request
	a, b    uuid.UUID
}

func (c compositionCell) arrange(t *testing.T, e *env, clock clock) *composition {
	t.Helper()
	s := &composition{compositionCell: c, e: e.scope()}
	s.request = s.e.window("w", compositionWindow)
	s.request.ActiveKey, s.request.Payload = ptr("k"), json.RawMessage(`1`)

	first := s.request
	switch c.window {
	case "none":
		first.WindowKey = ptr("another")
	case "open other":
		first.Payload = json.RawMessage(`2`)
	}
	if c.window != "none" || c.active == "held by same" {
		s.a = s.e.create(t, first)
		if c.active != "held by same" {
			// SUCCESSFUL frees the key at once, DISCARDED leaves its stale row.
			s.e.settle(t, s.a, map[bool]gen.TaskStatus{true: gen.TaskStatusDiscarded, false: gen.TaskStatusSuccessful}[c.active == "settled"])
		}
	} else if c.active == "settled" {
		s.e.settle(t, s.e.create(t, s.e.active("k")), gen.TaskStatusFailed)
	}
	if c.active == "held by other" {
		s.b = s.e.create(t, s.e.active("k"))
	}
	if c.window == "expired" {
		clock.forward(t, compositionWindow)
	}
	return s
}

// id resolves the task of the cell.
func (s *composition) id(created uuid.UUID) uuid.UUID {
	return map[string]uuid.UUID{"A": s.a, "B": s.b, "new": created}[s.task]
}

func (s *composition) writes() bool { return s.answer == "CREATED" || s.answer == "ACTIVE" }

// check compares an answer with the cell's and returns the task's id.
func (s *composition) check(t *testing.T, r gen.Receipt, err error) uuid.UUID {
	t.Helper()
	switch s.answer {
	case "PQ001", "PQ002":
		failed := wantError(t, err, s.answer)
		if got := member(t, []byte(failed.Detail), "task_id"); got != s.a.String() {
			t.Errorf("the detail is %s, want task %s", failed.Detail, s.a)
		}
		if got := member(t, []byte(failed.Detail), "holder_id"); s.answer == "PQ002" && got != s.b.String() {
			t.Errorf("the detail is %s, want holder %s", failed.Detail, s.b)
		}
		return uuid.Nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.answer == "CREATED" {
		return wantCreated(t, r)
	}
	wantReused(t, r, s.id(uuid.Nil), gen.DuplicateMatch(s.answer))
	return *r.TaskID
}

// keys is a picture of all keys of the namespace.
func (s *composition) keys(t *testing.T) string {
	t.Helper()
	return value[string](t, s.e.pool, `select coalesce((select string_agg(l::text, '; ' order by key) from pgqueue.unique_lock l where namespace = $1::text), '')
		|| ' / ' || coalesce((select string_agg(w::text, '; ' order by key) from pgqueue.unique_window w where namespace = $1::text), '')`, s.e.ns)
}

// checkAfter looks at what the committed answer left behind, and asks again.
func (s *composition) checkAfter(t *testing.T, id uuid.UUID, tasks int, keys string) {
	t.Helper()
	if s.answer == "CREATED" {
		tasks++
	}
	if n := s.e.tasks(t); n != tasks {
		t.Errorf("%d tasks, want %d", n, tasks)
	}
	checkInvariants(t, s.e.pool)
	if !s.writes() { // C2, C3, C4: nothing is taken or moved
		if after := s.keys(t); after != keys {
			t.Errorf("the keys went\nfrom %s\nto   %s", keys, after)
		}
		return
	}
	wantReused(t, s.e.enqueue(t, s.request), id, gen.DuplicateMatchBoth)
	// C1: the window key is linked: a later retry of this request finds the task after it finished too.
	exec(t, s.e.pool, "update pgqueue.task set status = 'FAILED', claimable = false, finished_at = now() where id = $1::uuid", id.String())
	wantReused(t, s.e.enqueue(t, s.request), id, gen.DuplicateMatchWindow)
	other := s.request
	other.Payload = json.RawMessage(`3`)
	_, err := gen.EnqueueUnique(t.Context(), s.e.pool, other)
	wantError(t, err, "PQ001")
}

// C1, C2, C3, C4, C5, case_C40: every cell alone, in the raising form and as a value.
func TestC5_Alone(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	for _, c := range compositionCells {
		t.Run(c.window+"/"+c.active, func(t *testing.T) {
			s := c.arrange(t, e, clock)
			tasks, keys := s.e.tasks(t), s.keys(t)
			r, err := gen.EnqueueUnique(t.Context(), s.e.pool, s.request)
			s.checkAfter(t, s.check(t, r, err), tasks, keys)

			s = c.arrange(t, e, clock)
			tasks, keys = s.e.tasks(t), s.keys(t)
			r = tryEnqueue(t, s.e.pool, s.request)
			if c.answer == "PQ001" || c.answer == "PQ002" {
				wantRefusal(t, r, c.answer)
				if r.ConflictingTaskID == nil || *r.ConflictingTaskID != s.a || (c.answer == "PQ002") != (r.ConflictingHolderID != nil && *r.ConflictingHolderID == s.b) {
					t.Errorf("the refusal is %s, want A %s and B %s", show(r), s.a, s.b)
				}
				s.checkAfter(t, uuid.Nil, tasks, keys)
				return
			}
			s.checkAfter(t, s.check(t, r, nil), tasks, keys)
		})
	}
}

// C5: every cell with two racing sessions. The first is in a transaction; where it writes, the second waits for its end.
func TestC5_Racing(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	for _, level := range levels {
		first, second := e.session(t, readCommitted), e.session(t, level)
		for _, c := range compositionCells {
			for _, end := range []string{"commit", "rollback"} {
				t.Run(fmt.Sprintf("%s/%s/%s/%s", level, c.window, c.active, end), func(t *testing.T) {
					s := c.arrange(t, e, clock)
					s.race(t, first, second, level, end)
				})
			}
		}
	}
}

func (s *composition) race(t *testing.T, first, second *pgx.Conn, level, end string) {
	t.Helper()
	tasks, keys := s.e.tasks(t), s.keys(t)
	exec(t, first, "begin")
	r, err := gen.EnqueueUnique(t.Context(), first, s.request)
	id := s.check(t, r, err)
	if !s.writes() {
		r, err = gen.EnqueueUnique(t.Context(), second, s.request)
		s.check(t, r, err)
		exec(t, first, end)
		s.checkAfter(t, id, tasks, keys)
		return
	}
	done := s.e.blocked(t, second, s.request)
	exec(t, first, end)
	got := wait(t, done)
	switch {
	case end == "rollback":
		id = s.check(t, got.receipt, got.err)
	case level == readCommitted:
		if got.err != nil {
			t.Fatal(got.err)
		}
		wantReused(t, got.receipt, id, gen.DuplicateMatchBoth)
	default:
		wantRace(t, got.err, "window_changed")
	}
	s.checkAfter(t, id, tasks, keys)
}
