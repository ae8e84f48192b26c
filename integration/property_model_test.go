package integration_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// The model: what the queue must answer, in the plainest words. It has no lock table: a key is held by the pending task that was
// enqueued under it.
type model struct {
	now     time.Time
	tasks   []*modelTask // not pruned, by id
	windows map[string]*modelWindow
	leases  []*modelLease
}

type modelTask struct {
	id           uuid.UUID
	key          string // active key, derived ones with a prefix; "" for none
	status       gen.TaskStatus
	attempt, max int
	leaseNumber  int
	lease        *modelLease
	runAfter     time.Time
	cancelled    bool
}

type modelWindow struct {
	task    uuid.UUID
	request string
	max     int // of the task: the only part of its policy that these requests differ in
	expires time.Time
}

type modelLease struct {
	id      uuid.UUID
	expires time.Time
}

// modelRequest is an enqueue as the model sees it.
type modelRequest struct {
	active, derived, window, payload string
	max                              int
}

func (r modelRequest) key() string { return r.active + r.derived }

// request is what a window key stands for.
func (r modelRequest) request() string { return fmt.Sprintf("%s %q", r.payload, r.active) }

// modelAnswer is the receipt that must come.
type modelAnswer struct {
	created          bool
	match            gen.DuplicateMatch
	task             uuid.UUID
	drift            bool
	code             string
	conflict, holder uuid.UUID
}

func (t *modelTask) pending() bool {
	return t.status == gen.TaskStatusReady || t.status == gen.TaskStatusRunning
}

func (m *model) task(id uuid.UUID) *modelTask {
	for _, t := range m.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (m *model) holder(key string) *modelTask {
	for _, t := range m.tasks {
		if key != "" && t.key == key && t.pending() {
			return t
		}
	}
	return nil
}

// enqueue answers a request. A created task is added by created, once its id is known.
func (m *model) enqueue(r modelRequest, window time.Duration) modelAnswer {
	holder := m.holder(r.key())
	if r.window == "" {
		if holder != nil {
			return modelAnswer{match: gen.DuplicateMatchActive, task: holder.id}
		}
		return modelAnswer{created: true}
	}
	open := m.windows[r.window]
	if open != nil && !m.now.Before(open.expires) {
		open = nil
	}
	switch {
	case open != nil && open.request != r.request():
		return modelAnswer{code: "PQ001", conflict: open.task}
	case open != nil && holder != nil && holder.id != open.task:
		return modelAnswer{code: "PQ002", conflict: open.task, holder: holder.id}
	case open != nil && holder != nil:
		return modelAnswer{match: gen.DuplicateMatchBoth, task: open.task, drift: open.max != r.max}
	case open != nil:
		return modelAnswer{match: gen.DuplicateMatchWindow, task: open.task, drift: open.max != r.max}
	case holder != nil:
		m.windows[r.window] = &modelWindow{task: holder.id, request: r.request(), max: holder.max, expires: m.now.Add(window)}
		return modelAnswer{match: gen.DuplicateMatchActive, task: holder.id, drift: holder.max != r.max}
	}
	m.windows[r.window] = &modelWindow{request: r.request(), max: r.max, expires: m.now.Add(window)}
	return modelAnswer{created: true}
}

func (m *model) created(r modelRequest, id uuid.UUID, runAfter time.Time) {
	m.tasks = append(m.tasks, &modelTask{id: id, key: r.key(), status: gen.TaskStatusReady, max: r.max, runAfter: runAfter})
	if r.window != "" {
		m.windows[r.window].task = id
	}
}

// due is the task to be claimed first: the one that has been due the longest.
func (m *model) due() (first *modelTask) {
	for _, t := range m.tasks {
		if t.status == gen.TaskStatusReady && !t.runAfter.After(m.now) && (first == nil || t.runAfter.Before(first.runAfter)) {
			first = t
		}
	}
	return first
}

func (t *modelTask) claim(lease *modelLease) {
	t.status, t.lease, t.cancelled = gen.TaskStatusRunning, lease, false
	t.attempt++
	t.leaseNumber++
}

// mayWrite tells whether an execution may write its outcome.
func (t *modelTask) mayWrite(number int, late bool) bool {
	return t != nil && t.leaseNumber == number && (t.status == gen.TaskStatusRunning || late && t.status == gen.TaskStatusLost)
}

// fail is the status after a failed attempt.
func (t *modelTask) fail(discard bool) gen.TaskStatus {
	switch {
	case t.status == gen.TaskStatusLost:
		t.status = gen.TaskStatusFailed
	case discard || t.cancelled:
		t.status = gen.TaskStatusDiscarded
	case t.attempt < t.max:
		t.status = gen.TaskStatusReady
	default:
		t.status = gen.TaskStatusFailed
	}
	return t.status
}

// giveBack ends an execution that is not to be counted.
func (t *modelTask) giveBack() {
	t.status = gen.TaskStatusReady
	if t.cancelled {
		t.status = gen.TaskStatusDiscarded
	}
	t.attempt--
}

func (m *model) closeLease(lease *modelLease) (n int64) {
	for _, t := range m.tasks {
		if t.status == gen.TaskStatusRunning && t.lease == lease {
			t.giveBack()
			t.leaseNumber++
			n++
		}
	}
	m.leases = slices.DeleteFunc(m.leases, func(l *modelLease) bool { return l == lease })
	return n
}

func (m *model) reap() (r gen.Reaped) {
	expired := func(l *modelLease) bool { return !m.now.Before(l.expires) }
	for _, t := range m.tasks {
		switch {
		case t.status != gen.TaskStatusRunning || !expired(t.lease):
		case t.cancelled:
			t.status = gen.TaskStatusDiscarded
			t.leaseNumber++
			r.Discarded++
		case t.attempt < t.max:
			t.status = gen.TaskStatusReady
			t.leaseNumber++
			r.Requeued++
		default:
			t.status = gen.TaskStatusLost
			r.Lost++
		}
	}
	m.leases = slices.DeleteFunc(m.leases, expired)
	return r
}

// retry answers with the error code, or whether the task has its key and which task has it instead.
func (m *model) retry(t *modelTask) (code string, holds *bool, holder *uuid.UUID) {
	switch {
	case t == nil:
		return "PQ008", nil, nil
	case t.pending() || t.status == gen.TaskStatusSuccessful:
		return "PQ009", nil, nil
	}
	if t.key != "" {
		newer := m.holder(t.key)
		holds = ptr(newer == nil)
		if newer != nil {
			holder, t.key = &newer.id, ""
		}
	}
	t.status, t.runAfter, t.cancelled = gen.TaskStatusReady, m.now, false
	t.max = max(t.max, t.attempt+1)
	t.leaseNumber++
	return "", holds, holder
}

func (m *model) discard(t *modelTask) string {
	switch {
	case t == nil:
		return "PQ008"
	case t.status == gen.TaskStatusRunning || t.status == gen.TaskStatusSuccessful || t.status == gen.TaskStatusDiscarded:
		return "PQ009"
	}
	t.status = gen.TaskStatusDiscarded
	return ""
}

func (m *model) cancel(t *modelTask) (string, gen.TaskStatus) {
	switch {
	case t == nil:
		return "PQ008", ""
	case !t.pending():
		return "PQ009", ""
	case t.status == gen.TaskStatusReady:
		t.status = gen.TaskStatusDiscarded
	default:
		t.cancelled = true
	}
	return "", t.status
}

// prune deletes everything that is over.
func (m *model) prune() (r gen.Pruned) {
	m.tasks = slices.DeleteFunc(m.tasks, func(t *modelTask) bool {
		if !t.pending() {
			r.Tasks++
		}
		return !t.pending()
	})
	for key, w := range m.windows {
		if !m.now.Before(w.expires) {
			delete(m.windows, key)
			r.Windows++
		}
	}
	return r
}
