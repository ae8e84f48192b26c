package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// String describes an execution for findings.
func (x *execution) String() string {
	if x == nil {
		return "none"
	}
	text := fmt.Sprintf("number %d on %s from %s", x.lease, x.process, x.begin.Format("15:04:05.000"))
	if x.how == "" {
		return text + ", no end"
	}
	return text + " to " + x.end.Format("15:04:05.000") + ", " + x.how
}

// byTask are all executions of each task, by lease number.
func (e *evidence) byTask() map[uuid.UUID][]*execution {
	all := make(map[uuid.UUID][]*execution, len(e.tasks))
	for _, x := range e.notes.executions {
		all[x.task] = append(all[x.task], x)
	}
	for _, executions := range all {
		slices.SortStableFunc(executions, func(a, b *execution) int { return cmp.Compare(a.lease, b.lease) })
	}
	return all
}

// judgeExecutions looks that no lease number was run twice, and that there is a fault behind every execution that was not the task's
// last one and did not end as its handler wanted.
func (e *evidence) judgeExecutions(all map[uuid.UUID][]*execution, v *verdict) {
	for id, executions := range all {
		t := e.tasks[id]
		if t == nil {
			e.problem("task %s was run and is not there", id)
			continue
		}
		v.executions += len(executions)
		for i, x := range executions {
			var next *execution
			until := e.endOf(t)
			if i+1 < len(executions) {
				next = executions[i+1]
				until = latest(next.begin, x.begin)
			}
			if next != nil && next.lease == x.lease {
				e.problem("task %s was run twice under one lease number: %s; %s", id, x, next)
			}
			if x.lease > t.LeaseNumber {
				e.problem("task %s is at lease number %d, yet it ran under %d: %s", id, t.LeaseNumber, x.lease, x)
			}
			if e.regular(t, x) {
				continue
			}
			v.doubles++
			if next != nil && (x.end.IsZero() || x.end.After(next.begin)) && e.livedUntil(x).After(next.begin) {
				v.atOnce++
			}
			if kind := e.behind(x, until); kind != "" {
				v.explained[kind]++
			} else {
				e.problem("task %s was executed once more without a fault: %s; then %s; %s", id, x, next, t.Status)
			}
		}
	}
}

// regular tells whether an execution is one that the queue promises: the one that settled the task, or one that ended as its handler
// wanted, with another to follow.
func (e *evidence) regular(t *task, x *execution) bool {
	switch {
	case x.lease == t.LeaseNumber && (t.Status == "SUCCESSFUL" || t.Status == "FAILED"):
		return true
	case x.how == endedFail:
		return e.attempts[execKey{t.ID, x.lease}] == "FAILED"
	case x.how == endedSnooze:
		return e.attempts[execKey{t.ID, x.lease}] == ""
	}
	return false
}

func (e *evidence) endOf(t *task) time.Time {
	if log := e.settled[t.ID]; len(log) > 0 {
		return log[0].At
	}
	return t.CreatedAt
}

// livedUntil is the end of an execution, or of its process.
func (e *evidence) livedUntil(x *execution) time.Time {
	if !x.end.IsZero() {
		return x.end
	}
	for _, f := range e.faults {
		if f.kind == faultKill && f.scope == x.process {
			return f.to
		}
	}
	return x.begin
}

// byWeight are the kinds of faults in the order in which they are taken as the reason, where several are possible: those that hit one
// process first.
var byWeight = []string{
	faultKill, faultStop, faultTerminate, faultHole, faultCut, faultDelay, faultRestart, faultFailover, faultStall,
}

// behind names the fault that made an execution worthless: one that hit its worker at some time from the last renewal that the
// execution can count on until the next one began.
func (e *evidence) behind(x *execution, until time.Time) string {
	best := len(byWeight)
	for _, f := range e.faults {
		if f.hits(x.process) && f.overlaps(x.begin.Add(-lease), until) {
			best = min(best, slices.Index(byWeight, f.kind))
		}
	}
	if best == len(byWeight) {
		return ""
	}
	return byWeight[best]
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
