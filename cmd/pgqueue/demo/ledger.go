package demo

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// counts are what came of the deliveries, as the receipts tell it.
type counts struct {
	Offered     int `json:"offered"`
	Created     int `json:"created"`
	Reused      int `json:"reused"`
	Active      int `json:"reused_active"`
	Window      int `json:"reused_window"`
	Both        int `json:"reused_both"`
	Conflicts   int `json:"conflicts"`
	OtherBody   int `json:"conflicts_other_body"`
	Composition int `json:"conflicts_composition"`
	Errors      int `json:"errors"`
}

// mostErrors is how many error texts are kept to be shown.
const mostErrors = 5

// ledger keeps the receipts of all producers.
type ledger struct {
	mu sync.Mutex
	counts
	created  map[pgqueue.TaskID]bool
	answered map[pgqueue.TaskID]bool   // every id in a receipt or a conflict
	windows  map[string]pgqueue.TaskID // what each window key answered
	problems []string                  // broken promises
	errors   []string
}

func newLedger() *ledger {
	return &ledger{
		created: make(map[pgqueue.TaskID]bool), answered: make(map[pgqueue.TaskID]bool), windows: make(map[string]pgqueue.TaskID),
	}
}

func (l *ledger) read() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// offer counts a delivery before its outcome is known.
func (l *ledger) offer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Offered++
}

func (l *ledger) record(d delivery, r pgqueue.Receipt, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused(err)
		return
	}
	switch r.Disposition {
	case pgqueue.Created:
		l.Created++
		if l.created[r.TaskID] {
			l.problem("task %s was created twice", r.TaskID)
		}
		l.created[r.TaskID] = true
	case pgqueue.Reused:
		l.Reused++
		switch r.DuplicateMatch {
		case pgqueue.MatchActive:
			l.Active++
		case pgqueue.MatchWindow:
			l.Window++
		case pgqueue.MatchBoth:
			l.Both++
		default:
			l.problem("a receipt says REUSED without a key: task %s", r.TaskID)
		}
	default:
		l.problem("a receipt says %q: task %s", r.Disposition, r.TaskID)
	}
	l.answered[r.TaskID] = true
	if d.windowKey == "" {
		return
	}
	if before, ok := l.windows[d.windowKey]; ok && before != r.TaskID {
		l.problem("window key %q answered task %s, and then task %s", d.windowKey, before, r.TaskID)
	}
	l.windows[d.windowKey] = r.TaskID
}

func (l *ledger) refused(err error) {
	var failed *pgqueue.Error
	switch {
	case errors.Is(err, pgqueue.ErrConflict):
		l.Conflicts++
		l.OtherBody++
	case errors.Is(err, pgqueue.ErrCompositionConflict):
		l.Conflicts++
		l.Composition++
	default:
		l.Errors++
		if len(l.errors) < mostErrors {
			l.errors = append(l.errors, err.Error())
		}
		return
	}
	if errors.As(err, &failed) {
		for _, id := range []*pgqueue.TaskID{failed.TaskID, failed.HolderID} {
			if id != nil {
				l.answered[*id] = true
			}
		}
	}
}

func (l *ledger) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// audit returns what does not add up among the receipts themselves.
func (l *ledger) audit() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	problems := append([]string(nil), l.problems...)
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if sum := l.Created + l.Reused + l.Conflicts + l.Errors; sum != l.Offered {
		add("offered %d, but created + reused + conflicts + errors = %d", l.Offered, sum)
	}
	if sum := l.Active + l.Window + l.Both; sum != l.Reused {
		add("reused %d, but by active, window and both keys together %d", l.Reused, sum)
	}
	unknown := 0
	for id := range l.answered {
		if !l.created[id] {
			unknown++
		}
	}
	if unknown > 0 {
		add("%d tasks were answered that no receipt says were created", unknown)
	}
	return problems
}

func (l *ledger) errorTexts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.errors...)
}

// ids returns the ids of the receipts, all and those of created tasks, as text.
func (l *ledger) ids() (answered, created []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return texts(l.answered), texts(l.created)
}

func texts(ids map[pgqueue.TaskID]bool) []string {
	list := make([]string, 0, len(ids))
	for id := range ids {
		list = append(list, id.String())
	}
	return list
}
