package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// stage is where one cell is played: our session at the cell's level, another at READ COMMITTED.
type stage struct {
	*env
	t       *testing.T
	clock   clock
	request request
	ours    *pgx.Conn
	other   *pgx.Conn
	holder  uuid.UUID // the task that REUSED must name
}

// situation brings a state about.
type situation struct {
	before func(s *stage) // committed before our snapshot
	after  func(s *stage) // after it
	ends   string         // what ends the other's transaction while our call waits for it; "" when our call must not wait
}

func (s *stage) createHolder() { s.holder = s.create(s.t, s.request) }

// settleHolder leaves the stale row of the key, as every end but success does.
func (s *stage) settleHolder() { s.settle(s.t, s.holder, gen.TaskStatusFailed) }

func (s *stage) claimHolder(db gen.DB) gen.ClaimedTask {
	return s.claim(s.t, db, s.lease(s.t, time.Minute), s.holder)
}

func (s *stage) otherEnqueues() {
	exec(s.t, s.other, "begin")
	s.holder = wantCreated(s.t, enqueue(s.t, s.other, s.request))
}

func (s *stage) pruneAll() {
	if pruned := s.prune(s.t, s.pool); pruned.Tasks == 0 {
		s.t.Fatalf("pruned %s", show(pruned))
	}
}

func steps(all ...func(s *stage)) func(s *stage) {
	return func(s *stage) {
		for _, step := range all {
			step(s)
		}
	}
}

// situations of the active key. A state with more than one way has one after a slash.
var situations = map[string]situation{
	"none":              {},
	"uncommitted":       {after: (*stage).otherEnqueues, ends: "commit"},
	"rolled back":       {after: (*stage).otherEnqueues, ends: "rollback"},
	"pending unchanged": {before: (*stage).createHolder},
	"pending being written/claimed": {before: (*stage).createHolder, after: func(s *stage) {
		exec(s.t, s.other, "begin")
		s.claimHolder(s.other)
	}},
	"pending being written/completed": {
		before: steps((*stage).createHolder, func(s *stage) { s.claimHolder(s.pool) }),
		after: func(s *stage) {
			exec(s.t, s.other, "begin")
			exec(s.t, s.other, "select pgqueue.complete(id, lease_number, namespace => namespace) from pgqueue.task where id = $1::uuid", s.holder.String())
		},
	},
	"pending being written/deleted": {before: (*stage).createHolder, after: func(s *stage) {
		exec(s.t, s.other, "begin")
		exec(s.t, s.other, "delete from pgqueue.task where id = $1::uuid", s.holder.String())
	}},
	"pending changed": {before: (*stage).createHolder, after: func(s *stage) { s.claimHolder(s.pool) }},
	"settled before":  {before: steps((*stage).createHolder, (*stage).settleHolder)},
	"settled before/successful": {before: steps((*stage).createHolder, func(s *stage) {
		s.settle(s.t, s.holder, gen.TaskStatusSuccessful)
	})},
	"settled after": {before: (*stage).createHolder, after: (*stage).settleHolder},
	"settled after/successful": {before: (*stage).createHolder, after: func(s *stage) {
		s.settle(s.t, s.holder, gen.TaskStatusSuccessful)
	}},
	"retried after": {before: steps((*stage).createHolder, (*stage).settleHolder), after: func(s *stage) { s.retry(s.t, s.pool, s.holder) }},
	"retried after/by hand": {before: steps((*stage).createHolder, (*stage).settleHolder), after: func(s *stage) {
		exec(s.t, s.pool, `update pgqueue.task set status = 'READY', claimable = true, finished_at = null,
			max_attempts = attempt + 1 where id = $1::uuid`, s.holder.String())
	}},
	"pruned before": {before: steps((*stage).createHolder, (*stage).settleHolder, (*stage).pruneAll)},
	"pruned before/its key left": {before: steps((*stage).createHolder, func(s *stage) {
		exec(s.t, s.pool, "delete from pgqueue.task where id = $1::uuid", s.holder.String())
	})},
	"pruned after": {before: steps((*stage).createHolder, (*stage).settleHolder), after: (*stage).pruneAll},
	"pruned after/its key left": {before: steps((*stage).createHolder, (*stage).settleHolder), after: func(s *stage) {
		exec(s.t, s.pool, "delete from pgqueue.task where id = $1::uuid", s.holder.String())
	}},
	"pruned after/pending in the snapshot": {before: (*stage).createHolder, after: steps((*stage).settleHolder, (*stage).pruneAll)},
	"key taken after":                      {after: (*stage).createHolder},
	"moved on":                             {before: steps((*stage).createHolder, (*stage).settleHolder), after: (*stage).createHolder},
}

// I1, I2, I3, I5, I6, case_C02, case_C03: every cell of the matrix, by the raising form and by the one that answers with values.
func TestIsolation(t *testing.T) {
	t.Parallel()
	e, clock := newClockEnv(t)
	for state := range situations {
		if !slices.ContainsFunc(isolationStates, func(s struct{ state, meaning string }) bool { return s.state == stateOf(state) }) {
			t.Errorf("the state %s is not explained", state)
		}
	}
	runIsolation(t, e, clock, isolationTable, situations, func(e *env) request { return e.active("k") })
}

func runIsolation(t *testing.T, e *env, clock clock, table []isolationCell, all map[string]situation, make func(e *env) request) {
	ours := map[string]*pgx.Conn{}
	for _, level := range levels {
		ours[level] = e.session(t, level)
	}
	other := e.session(t, readCommitted)
	for _, cell := range table {
		found := false
		for name, situation := range all {
			if stateOf(name) != cell.state {
				continue
			}
			found = true
			t.Run(cell.level+"/"+name, func(t *testing.T) {
				for _, form := range []string{"enqueue_unique", "try_enqueue_unique"} {
					s := &stage{env: e.scope(), t: t, clock: clock, ours: ours[cell.level], other: other}
					s.request = make(s.env)
					s.play(cell, situation, form)
				}
			})
		}
		if !found {
			t.Errorf("%s: no situation", cell.state)
		}
	}
}

// play runs one cell and checks its answer, and what is left.
func (s *stage) play(cell isolationCell, situation situation, form string) {
	t := s.t
	t.Helper()
	if situation.before != nil {
		situation.before(s)
	}
	exec(t, s.ours, "begin")
	if level := value[string](t, s.ours, "show transaction_isolation"); level != cell.level {
		t.Fatalf("the level is %s", level)
	}
	value[int](t, s.ours, "select count(*) from pgqueue.task") // takes the snapshot
	if situation.after != nil {
		situation.after(s)
	}
	tasks := s.tasks(t)

	got := s.call(situation, form)
	switch {
	case situation.ends == "commit":
		tasks++
	case situation.ends == "" && s.other.PgConn().TxStatus() == 'T':
		exec(t, s.other, "rollback")
	}
	switch cell.answer {
	case "CREATED":
		if got.err != nil {
			t.Fatalf("%s: %v", form, got.err)
		}
		wantCreated(t, got.receipt)
		tasks++
	case "REUSED":
		if got.err != nil {
			t.Fatalf("%s: %v", form, got.err)
		}
		wantReused(t, got.receipt, s.holder, s.match())
	case "race":
		s.checkRace(cell, form, got)
	}
	if form == "enqueue_unique" && cell.answer == "race" {
		exec(t, s.ours, "rollback")
	} else {
		// I5: the transaction is usable, and commits.
		exec(t, s.ours, "create temporary table usable on commit drop as select 1")
		exec(t, s.ours, "commit")
	}
	if n := s.tasks(t); n != tasks {
		t.Errorf("%s: %d tasks, want %d", form, n, tasks)
	}
	checkInvariants(t, s.pool)

	// A new transaction finds a task: the one of before, or its own.
	if again := s.enqueue(t, s.request); cell.answer != "race" {
		wantReused(t, again, *got.receipt.TaskID, s.match())
	}
	checkInvariants(t, s.pool)
}

func (s *stage) match() gen.DuplicateMatch {
	if s.request.WindowKey != nil {
		return gen.DuplicateMatchWindow
	}
	return gen.DuplicateMatchActive
}

// call makes the call by one form, and ends the other's transaction when it waits for that.
func (s *stage) call(situation situation, form string) answer {
	s.t.Helper()
	done := make(chan answer, 1)
	go func() {
		var a answer
		if form == "enqueue_unique" {
			a.receipt, a.err = gen.EnqueueUnique(s.t.Context(), s.ours, s.request)
		} else {
			a.receipt, a.err = gen.TryEnqueueUnique(s.t.Context(), s.ours, gen.TryEnqueueUniqueParams(s.request))
		}
		done <- a
	}()
	if situation.ends != "" {
		waitBlocked(s.t, s.pool, s.ours)
		exec(s.t, s.other, situation.ends)
	}
	return wait(s.t, done)
}

// causes is what the message of a race says of them (I3).
var causes = map[string]string{
	"key_taken":      "the key was taken by another transaction after this transaction's snapshot",
	"holder_changed": "the task that holds the key was changed by another transaction after this transaction's snapshot",
	"window_changed": "the window key was written by another transaction after this transaction's snapshot",
}

func (s *stage) checkRace(cell isolationCell, form string, got answer) {
	s.t.Helper()
	if form == "enqueue_unique" {
		failed := wantRace(s.t, got.err, cell.cause)
		if !strings.Contains(failed.Message, causes[cell.cause]) {
			s.t.Errorf("the message is %s", failed.Message)
		}
		return
	}
	if got.err != nil {
		s.t.Fatalf("%s: %v", form, got.err)
	}
	wantRefusal(s.t, got.receipt, "40001")
	if cause := member(s.t, got.receipt.ErrorDetail, "cause"); cause != cell.cause {
		s.t.Fatalf("the cause of %s is %s, want %s", show(got.receipt), cause, cell.cause)
	}
}
