package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// scene is evidence of a run without any fault: one task of window key w, created, run once and settled.
type scene struct {
	*evidence

	id   uuid.UUID
	task *task
	run  *execution
	at   time.Time
}

func newScene() *scene {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := uuid.MustParse("00000000-0000-7000-8000-000000000001")
	s := &scene{id: id, at: at}
	s.task = &task{
		taskRow: taskRow{
			ID: id, Status: "SUCCESSFUL", LeaseNumber: 1, Attempt: 1, MaxAttempts: 10, ActiveKey: "a",
			ResultWorker: "w1.1", ResultLease: 1, CreatedAt: at, FinishedAt: at.Add(time.Second),
		},
		work: work{Request: 1, Window: "w", Active: "a"},
	}
	s.run = &execution{task: id, lease: 1, process: "w1.1", begin: at.Add(100 * time.Millisecond), end: at.Add(900 * time.Millisecond), how: endedOK}
	l := newLedger()
	l.offer(1)
	l.answer(&request{work: s.task.work}, pgqueue.Outcome{Receipt: pgqueue.Receipt{TaskID: id, Disposition: pgqueue.Created}})
	s.evidence = &evidence{
		tasks:    map[uuid.UUID]*task{id: s.task},
		settled:  map[uuid.UUID][]settling{id: {{TaskID: id, FromStatus: "RUNNING", ToStatus: "SUCCESSFUL", LeaseNumber: 1, At: at.Add(time.Second)}}},
		attempts: map[execKey]string{}, windows: map[string]uuid.UUID{"w": id}, notes: notes{executions: []*execution{s.run}}, ledger: l,
	}
	return s
}

// earlier adds an execution before the one that settled the task, which becomes number 2.
func (s *scene) earlier(how string) *execution {
	s.run.lease, s.task.LeaseNumber, s.task.ResultLease, s.settled[s.id][0].LeaseNumber = 2, 2, 2, 2
	s.run.begin = s.at.Add(800 * time.Millisecond)
	x := &execution{task: s.id, lease: 1, process: "w2.1", begin: s.at.Add(50 * time.Millisecond), how: how}
	if how != "" {
		x.end = s.at.Add(700 * time.Millisecond)
	}
	s.notes.executions = append(s.notes.executions, x)
	return x
}

// What is wrong must be found, and nothing else.
func TestJudge(t *testing.T) {
	other := uuid.MustParse("00000000-0000-7000-8000-000000000002")
	for _, c := range []struct {
		name string
		do   func(s *scene)
		want string // part of the only finding, none when empty
	}{
		{"all is well", func(*scene) {}, ""},
		{"killed", func(s *scene) {
			s.earlier("")
			s.faults = []fault{{kind: faultKill, scope: "w2.1", from: s.at.Add(300 * time.Millisecond), to: s.at.Add(300 * time.Millisecond)}}
		}, ""},
		{"another worker was killed", func(s *scene) {
			s.earlier("")
			s.faults = []fault{{kind: faultKill, scope: "w2.10", from: s.at.Add(300 * time.Millisecond), to: s.at.Add(300 * time.Millisecond)}}
		}, "without a fault"},
		{"killed long before", func(s *scene) {
			s.earlier("")
			s.faults = []fault{{kind: faultCut, scope: "w2", from: s.at.Add(-time.Minute), to: s.at.Add(-time.Minute)}}
		}, "without a fault"},
		{"ended well, and again", func(s *scene) { s.earlier(endedOK) }, "without a fault"},
		{"failed and was retried", func(s *scene) {
			s.earlier(endedFail)
			s.attempts[execKey{s.id, 1}] = "FAILED"
		}, ""},
		{"failed and was lost", func(s *scene) {
			s.earlier(endedFail)
			s.attempts[execKey{s.id, 1}] = "LOST"
		}, "without a fault"},
		{"one number twice", func(s *scene) {
			x := s.earlier("")
			x.lease = 2
			s.faults = []fault{{kind: faultRestart, from: s.at, to: s.at}}
		}, "twice under one lease number"},
		{"settled twice", func(s *scene) { s.settled[s.id] = append(s.settled[s.id], s.settled[s.id][0]) }, "settled twice"},
		{"reported after LOST", func(s *scene) {
			s.settled[s.id] = []settling{
				{FromStatus: "RUNNING", ToStatus: "LOST", LeaseNumber: 1, At: s.at.Add(time.Second)},
				{FromStatus: "LOST", ToStatus: "SUCCESSFUL", LeaseNumber: 1, At: s.at.Add(2 * time.Second)},
			}
		}, ""},
		{"another reported after LOST", func(s *scene) {
			s.settled[s.id] = []settling{
				{FromStatus: "RUNNING", ToStatus: "LOST", LeaseNumber: 0, At: s.at.Add(time.Second)},
				{FromStatus: "LOST", ToStatus: "SUCCESSFUL", LeaseNumber: 1, At: s.at.Add(2 * time.Second)},
			}
		}, "settled twice"},
		{"outcome of another execution", func(s *scene) { s.task.ResultLease = 3 }, "is SUCCESSFUL under lease number 1"},
		{"pending", func(s *scene) { s.task.Status, s.notes.executions = "RUNNING", nil }, "is RUNNING"},
		{"an answered task is gone", func(s *scene) { s.ledger.answered[other] = struct{}{} }, "lost: "},
		{"a request without an answer", func(s *scene) { s.ledger.offer(1) }, "offered 2"},
		{"a task that nobody made", func(s *scene) { s.ledger.windows["w"].created, s.ledger.counts.created = 0, 1 }, "made by no call"},
		{"two answers under a window key", func(s *scene) {
			s.ledger.seen(&request{work: s.task.work}, other)
			s.ledger.windows["w"].task = s.id
		}, "and then for task"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.do(s)
			v := s.judge()
			switch {
			case c.want == "" && len(v.problems) > 0:
				t.Errorf("found %q", v.problems)
			case c.want != "" && (len(v.problems) != 1 || !strings.Contains(v.problems[0], c.want)):
				t.Errorf("found %q, want %q", v.problems, c.want)
			}
		})
	}
}

func TestServerLog(t *testing.T) {
	e := &evidence{}
	e.readServerLog("2026-01-01 [1] w1.1 PQ009 ERROR:  lease is unknown\n2026-01-01 [1] w1.1 57P01 FATAL:  terminating\n")
	if len(e.problems) > 0 {
		t.Errorf("found %q", e.problems)
	}
	e.readServerLog("2026-01-01 [1] w1.1 40P01 ERROR:  deadlock detected\n")
	if len(e.problems) != 1 {
		t.Errorf("found %q", e.problems)
	}
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j, err := openJournal(dir + "/w1.1" + journalSuffix)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	begin := time.Now()
	for _, err := range []error{
		j.begin(id, 1), j.end(id, 1, endedOK), j.begin(id, 2), j.stalled(begin, begin.Add(time.Second)), j.file.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n, err := readJournals(dir)
	if err != nil || len(n.executions) != 2 || len(n.stalls) != 1 || len(n.problems) != 0 {
		t.Fatalf("read %+v, %v", n, err)
	}
	first, second := n.executions[0], n.executions[1]
	if first.how != endedOK || first.process != "w1.1" || first.end.Before(first.begin) || second.how != "" || !second.end.IsZero() {
		t.Errorf("read %s and %s", first, second)
	}
}
