package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// task is a task with its payload read.
type task struct {
	taskRow

	work work
}

// taskRow is a row of pgqueue.task.
type taskRow struct {
	ID           uuid.UUID
	Status       string
	LeaseNumber  int
	Attempt      int
	MaxAttempts  int
	ActiveKey    string
	Payload      json.RawMessage
	ResultWorker string
	ResultLease  int
	CreatedAt    time.Time
	FinishedAt   time.Time
}

// settling is a write to a settled task, or one that settled it.
type settling struct {
	TaskID      uuid.UUID
	FromStatus  string
	ToStatus    string
	LeaseNumber int
	At          time.Time
}

type attempt struct {
	TaskID      uuid.UUID
	LeaseNumber int
	Outcome     string
}

type windowRow struct {
	WindowKey string
	TaskID    uuid.UUID
}

// evidence is all there is to compare: the database, the producers' ledger and the workers' journals.
type evidence struct {
	tasks    map[uuid.UUID]*task
	settled  map[uuid.UUID][]settling
	attempts map[execKey]string
	windows  map[string]uuid.UUID
	notes    notes
	faults   []fault
	ledger   *ledger

	problems []string
}

// verdict is what was found out by comparing.
type verdict struct {
	counts

	tasks                               int
	successful, failed, lost, discarded int
	settledOnce, ownOutcomeOnLost       int
	unseen                              int // tasks whose producer never got their answer, and had no window key to ask again with
	executions, doubles, atOnce         int
	explained                           map[string]int // double executions by the fault behind them
	problems                            []string
}

func (e *evidence) problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// check compares everything while no producer is at work and no task is pending.
func (c *conductor) check(ctx context.Context) error {
	e, err := c.collect(ctx)
	if err != nil {
		return fmt.Errorf("collect what there is to compare: %w", err)
	}
	violations, err := list[string](ctx, c.cluster.admin(), invariantsSQL)
	if err != nil {
		return err
	}
	for _, v := range violations {
		e.problem("check_invariants: %s", v)
	}
	logs, err := c.cluster.log()
	if err != nil {
		return err
	}
	for _, text := range logs {
		e.readServerLog(text)
	}
	c.last = e.judge()
	c.checks++
	c.mu.Lock()
	c.findings = append(c.findings, c.last.problems...)
	found := len(c.findings)
	c.mu.Unlock()
	v := c.last
	fmt.Fprintf(c.out, "%s  checked: %d offered, %d tasks, %d settled once, %d executions of which %d doubled, %d findings\n",
		c.elapsed(), v.offered, v.tasks, v.settledOnce, v.executions, v.doubles, found)
	if found > 0 {
		return errFound
	}
	return nil
}

func (c *conductor) collect(ctx context.Context) (*evidence, error) {
	e := &evidence{
		tasks: make(map[uuid.UUID]*task), settled: make(map[uuid.UUID][]settling), attempts: make(map[execKey]string),
		windows: make(map[string]uuid.UUID), ledger: c.ledger,
	}
	admin := c.cluster.admin()
	tasks, err := structs[taskRow](ctx, admin, tasksSQL)
	if err != nil {
		return nil, err
	}
	for _, row := range tasks {
		t := &task{taskRow: row}
		if err := json.Unmarshal(t.Payload, &t.work); err != nil {
			return nil, err
		}
		e.tasks[t.ID] = t
	}
	settled, err := structs[settling](ctx, admin, settledSQL)
	if err != nil {
		return nil, err
	}
	for _, s := range settled {
		e.settled[s.TaskID] = append(e.settled[s.TaskID], s)
	}
	attempts, err := structs[attempt](ctx, admin, attemptsSQL)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts {
		e.attempts[execKey{a.TaskID, a.LeaseNumber}] = a.Outcome
	}
	windows, err := structs[windowRow](ctx, admin, windowsSQL)
	if err != nil {
		return nil, err
	}
	for _, w := range windows {
		e.windows[w.WindowKey] = w.TaskID
	}
	e.notes, err = readJournals(c.dir)
	e.faults = append(c.faults.all(), e.notes.stalls...)
	return e, err
}

// judge does all comparisons.
func (e *evidence) judge() verdict {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	v := verdict{counts: e.ledger.counts, tasks: len(e.tasks), explained: make(map[string]int)}
	e.problems = append(e.problems, e.ledger.problems...)
	e.problems = append(e.problems, e.notes.problems...)
	e.judgeBooks(&v)
	executions := e.byTask()
	for _, t := range e.tasks {
		e.judgeSettled(t, &v)
		e.judgeOutcome(t, executions[t.ID])
	}
	e.judgeActiveKeys()
	e.judgeExecutions(executions, &v)
	v.problems = e.problems
	return v
}

// judgeBooks compares the producers' ledger with the tasks.
func (e *evidence) judgeBooks(v *verdict) {
	l := e.ledger
	if l.offered != l.counts.created+l.reused+l.refused {
		e.problem("offered %d is not created %d + reused %d + refused %d", l.offered, l.counts.created, l.reused, l.refused)
	}
	for id := range l.answered {
		if e.tasks[id] == nil {
			e.problem("lost: task %s was answered to a producer and is not there", id)
		}
	}
	byWindow := make(map[string]uuid.UUID)
	for id, t := range e.tasks {
		if w := t.work.Window; w != "" {
			if other, twice := byWindow[w]; twice {
				e.problem("window key %s made two tasks: %s and %s", w, other, id)
			}
			byWindow[w] = id
			n := l.windows[w]
			switch {
			case n == nil:
				e.problem("task %s has window key %s, which nobody sent", id, w)
			case n.task != id:
				e.problem("task %s has window key %s, whose senders were answered task %s", id, w, n.task)
			case n.created == 0 && n.maybe == 0:
				e.problem("task %s of window key %s was made by no call", id, w)
			case n.created == 0:
				v.recovered++
			}
			continue
		}
		answer, sent := l.tries[tryKey{t.work.Request, t.work.Try}]
		switch {
		case !sent:
			e.problem("task %s was made by no call: request %d, try %d", id, t.work.Request, t.work.Try)
		case answer == uuid.Nil:
			v.unseen++
		case answer != id:
			e.problem("request %d, try %d made task %s and was answered %s", t.work.Request, t.work.Try, id, answer)
		}
	}
	for w, n := range l.windows {
		if held := e.windows[w]; n.task != uuid.Nil && held != n.task {
			e.problem("window key %s stands for task %s, its senders were answered %s", w, held, n.task)
		}
	}
	for id, key := range l.holders {
		if t := e.tasks[id]; t != nil && t.ActiveKey != key {
			e.problem("task %s was answered for the active key %s, its own is %q", id, key, t.ActiveKey)
		}
	}
	if v.tasks != v.created+v.recovered+v.unseen {
		e.problem("%d tasks are not created %d + recovered %d + unseen %d", v.tasks, v.created, v.recovered, v.unseen)
	}
}

// judgeSettled looks that a task was settled exactly once. The one thing that may follow is the outcome of a LOST task's own execution.
func (e *evidence) judgeSettled(t *task, v *verdict) {
	log := e.settled[t.ID]
	switch t.Status {
	case "SUCCESSFUL":
		v.successful++
	case "FAILED":
		v.failed++
	case "LOST":
		v.lost++
	case "DISCARDED":
		v.discarded++
	default:
		e.problem("task %s is %s", t.ID, t.Status)
		return
	}
	switch {
	case len(log) == 0:
		e.problem("task %s is %s, and nobody saw it being settled", t.ID, t.Status)
		return
	case len(log) == 2 && log[0].ToStatus == "LOST" && log[1].FromStatus == "LOST" && log[1].LeaseNumber == log[0].LeaseNumber &&
		(log[1].ToStatus == "SUCCESSFUL" || log[1].ToStatus == "FAILED"):
		v.ownOutcomeOnLost++
	case len(log) > 1:
		e.problem("settled twice: task %s: %v", t.ID, log)
		return
	}
	v.settledOnce++
	if end := log[len(log)-1]; end.ToStatus != t.Status || end.LeaseNumber != t.LeaseNumber {
		e.problem("task %s is %s under lease number %d, it was settled as %s under %d", t.ID, t.Status, t.LeaseNumber, end.ToStatus, end.LeaseNumber)
	}
}

// judgeOutcome compares the outcome in the row with the journal of the execution that wrote it.
func (e *evidence) judgeOutcome(t *task, executions []*execution) {
	i := slices.IndexFunc(executions, func(x *execution) bool { return x.lease == t.LeaseNumber })
	var x *execution
	if i >= 0 {
		x = executions[i]
	}
	outcome := e.attempts[execKey{t.ID, t.LeaseNumber}]
	switch t.Status {
	case "SUCCESSFUL":
		if x == nil || x.how != endedOK || t.ResultLease != t.LeaseNumber || t.ResultWorker != x.process {
			e.problem("task %s is SUCCESSFUL under lease number %d, by worker %s under %d; journal: %s",
				t.ID, t.LeaseNumber, t.ResultWorker, t.ResultLease, x)
		}
	case "FAILED":
		if x == nil || x.how != endedFail || outcome != "FAILED" || t.Attempt < t.MaxAttempts {
			e.problem("task %s is FAILED on attempt %d of %d, its last attempt is %q; journal: %s", t.ID, t.Attempt, t.MaxAttempts, outcome, x)
		}
	case "LOST":
		if outcome != "LOST" || t.Attempt < t.MaxAttempts {
			e.problem("task %s is LOST on attempt %d of %d, its last attempt is %q", t.ID, t.Attempt, t.MaxAttempts, outcome)
		}
	case "DISCARDED":
		e.problem("task %s is DISCARDED, and nobody asked for that", t.ID)
	}
}

// judgeActiveKeys looks that no two tasks of one active key were pending at the same time.
func (e *evidence) judgeActiveKeys() {
	byKey := make(map[string][]*task)
	for _, t := range e.tasks {
		if t.ActiveKey != "" {
			byKey[t.ActiveKey] = append(byKey[t.ActiveKey], t)
		}
	}
	for key, tasks := range byKey {
		slices.SortFunc(tasks, func(a, b *task) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for i := 1; i < len(tasks); i++ {
			before := tasks[i-1]
			if log := e.settled[before.ID]; len(log) > 0 && tasks[i].CreatedAt.Before(log[0].At) {
				e.problem("active key %s: task %s was made while %s was pending", key, tasks[i].ID, before.ID)
			}
		}
	}
}

// readServerLog finds what must never be in a server's log, whatever happens to it.
func (e *evidence) readServerLog(text string) {
	for line := range strings.Lines(text) {
		for _, bad := range []string{" 40P01 ERROR", " XX000 ", " XX001 ", " XX002 ", " 23505 ERROR", "PANIC: ", "pgqueue.reap_lost: "} {
			if strings.Contains(line, bad) {
				e.problem("server log: %s", strings.TrimSpace(line))
			}
		}
	}
}
