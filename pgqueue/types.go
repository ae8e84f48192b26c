package pgqueue

import (
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// TaskID identifies a task: a UUID of version 7, which sorts by creation time.
type TaskID = uuid.UUID

// What the database's functions return.
type (
	// TaskStatus is the state of a task.
	TaskStatus = gen.TaskStatus
	// Disposition tells whether an enqueue created a task.
	Disposition = gen.Disposition
	// DuplicateMatch tells which key found the existing task.
	DuplicateMatch = gen.DuplicateMatch
	// TaskInfo is a task as it is stored.
	TaskInfo = gen.TaskView
	// Attempt is an attempt that did not succeed.
	Attempt = gen.Attempt
	// QueueStat counts the tasks of a queue.
	QueueStat = gen.QueueStat
	// Retried is the answer to Retry.
	Retried = gen.Retried
	// Pruned is the answer to Prune.
	Pruned = gen.Pruned
	// Reaped is the answer to Reap.
	Reaped = gen.Reaped
)

// The states of a task. Ready and Running are pending: the task holds its active key. The others are settled.
const (
	Ready      = gen.TaskStatusReady
	Running    = gen.TaskStatusRunning
	Successful = gen.TaskStatusSuccessful
	Failed     = gen.TaskStatusFailed
	Lost       = gen.TaskStatusLost
	Discarded  = gen.TaskStatusDiscarded
)

// Outcomes of an enqueue.
const (
	Created = gen.DispositionCreated
	Reused  = gen.DispositionReused

	MatchActive = gen.DuplicateMatchActive
	MatchWindow = gen.DuplicateMatchWindow
	MatchBoth   = gen.DuplicateMatchBoth
)

// Receipt is the answer to an enqueue. It describes the stored task: of a REUSED one the queue, priority and times are those it
// was created with, and the payload of this call was discarded.
type Receipt struct {
	TaskID      TaskID
	Disposition Disposition
	// DuplicateMatch is empty for a created task.
	DuplicateMatch DuplicateMatch
	// PolicyDrift tells that a window key matched, but this call asked for another policy than the task has.
	PolicyDrift bool
	// Status is empty, and what follows is zero, for a task that its window key still answers for but that was pruned.
	Status    TaskStatus
	Queue     string
	Priority  int
	RunAfter  time.Time
	Attempt   int
	CreatedAt time.Time
}

// Created tells whether the call made a new task.
func (r Receipt) Created() bool { return r.Disposition == Created }

func receiptFrom(g gen.Receipt) Receipt {
	return Receipt{
		TaskID: value(g.TaskID), Disposition: g.Disposition, DuplicateMatch: g.DuplicateMatch, PolicyDrift: value(g.PolicyDrift),
		Status: g.Status, Queue: value(g.Queue), Priority: value(g.Priority), RunAfter: value(g.RunAfter),
		Attempt: value(g.Attempt), CreatedAt: value(g.CreatedAt),
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
