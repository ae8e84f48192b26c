package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// counts are what the producers saw.
type counts struct {
	offered, created, reused, refused   int
	active, window, both                int // of reused
	conflicts, composition              int // of refused
	unanswered, maybe, races, recovered int
}

// windowNote is what producers know of a window key.
type windowNote struct {
	task    uuid.UUID // of all answers; they must agree
	created int
	maybe   int // calls that may have gone through although nobody got the answer
}

// tryKey names one call with an active key alone, where each call may make a task of its own.
type tryKey struct{ request, try int }

// ledger keeps what producers saw. It is outside the database, as their own books would be.
type ledger struct {
	mu sync.Mutex
	counts
	windows  map[string]*windowNote
	tries    map[tryKey]uuid.UUID // the zero id: nobody got the answer
	created  map[uuid.UUID]int
	answered map[uuid.UUID]struct{}
	holders  map[uuid.UUID]string // active key that found the task
	problems []string
}

func newLedger() *ledger {
	return &ledger{
		windows: make(map[string]*windowNote), tries: make(map[tryKey]uuid.UUID), created: make(map[uuid.UUID]int),
		answered: make(map[uuid.UUID]struct{}), holders: make(map[uuid.UUID]string),
	}
}

func (l *ledger) offer(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offered += n
}

func (l *ledger) read() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// tasks is how many tasks producers know that they made.
func (l *ledger) tasks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts.created
}

func (l *ledger) note(window string) *windowNote {
	n := l.windows[window]
	if n == nil {
		n = &windowNote{}
		l.windows[window] = n
	}
	return n
}

func (l *ledger) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// noAnswer records calls that ended without an answer. maybe: they may have been committed.
func (l *ledger) noAnswer(requests []*request, maybe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range requests {
		l.unanswered++
		if !maybe {
			continue
		}
		l.maybe++
		if r.work.Window != "" {
			l.note(r.work.Window).maybe++
		} else {
			l.tries[tryKey{r.work.Request, r.work.Try}] = uuid.Nil
		}
	}
}

// answer records the answer to a request. It is false when the request must be sent again.
func (l *ledger) answer(r *request, o pgqueue.Outcome) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refused *pgqueue.Error
	switch {
	case o.Err == nil:
	case errors.Is(o.Err, pgqueue.ErrRace), errors.Is(o.Err, pgqueue.ErrStandby):
		l.races++
		return false
	case errors.Is(o.Err, pgqueue.ErrConflict), errors.Is(o.Err, pgqueue.ErrCompositionConflict):
		l.refused++
		if errors.Is(o.Err, pgqueue.ErrConflict) {
			l.conflicts++
		} else {
			l.composition++
		}
		if errors.As(o.Err, &refused) && refused.TaskID != nil {
			l.seen(r, *refused.TaskID)
		}
		return true
	default:
		l.refused++
		l.problem("request %d was refused: %v", r.work.Request, o.Err)
		return true
	}

	known := l.created[o.TaskID] > 0
	l.answered[o.TaskID] = struct{}{}
	if o.Created() {
		l.counts.created++
		if l.created[o.TaskID]++; known {
			l.problem("task %s was answered CREATED twice", o.TaskID)
		}
		if r.work.Window == "" {
			l.tries[tryKey{r.work.Request, r.work.Try}] = o.TaskID
		} else {
			l.note(r.work.Window).created++
		}
	} else {
		l.reused++
		switch o.DuplicateMatch {
		case pgqueue.MatchActive:
			l.active++
		case pgqueue.MatchWindow:
			l.window++
		case pgqueue.MatchBoth:
			l.both++
		}
		if o.DuplicateMatch != pgqueue.MatchWindow {
			if key, ok := l.holders[o.TaskID]; ok && key != r.work.Active {
				l.problem("task %s was answered for the active keys %s and %s", o.TaskID, key, r.work.Active)
			}
			l.holders[o.TaskID] = r.work.Active
		}
	}
	l.seen(r, o.TaskID)
	return true
}

// seen notes which task stands for a window key.
func (l *ledger) seen(r *request, task uuid.UUID) {
	if r.work.Window == "" {
		return
	}
	n := l.note(r.work.Window)
	if n.task != uuid.Nil && n.task != task {
		l.problem("window key %s stood for task %s, and then for task %s", r.work.Window, n.task, task)
	}
	n.task = task
}
