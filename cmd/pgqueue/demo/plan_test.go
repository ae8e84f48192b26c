package demo

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func manyEvents(n int) input {
	in := input{name: "test", task: "test"}
	for i := range n {
		in.events = append(in.events, event{
			payload: fmt.Appendf(nil, `{"n":%d}`, i), activeKey: fmt.Sprintf("k%d", i/7), windowKey: fmt.Sprintf("w%d", i),
		})
	}
	return in
}

func TestPlan(t *testing.T) {
	in := manyEvents(2000)
	p, err := makePlan(in, 10, 4)
	if err != nil {
		t.Fatal(err)
	}
	if p.again < 150 || p.again > 250 || len(p.deliveries) != 2000+p.again {
		t.Errorf("%d deliveries, %d again", len(p.deliveries), p.again)
	}
	if p.changed < 8 || p.changed > 40 {
		t.Errorf("%d of %d redeliveries are changed", p.changed, p.again)
	}
	seen := make(map[string]delivery)
	for _, d := range p.deliveries {
		first, again := seen[d.windowKey]
		if !again {
			seen[d.windowKey] = d
			if strings.Contains(string(d.payload), "changed_by_demo") {
				t.Errorf("%s comes changed at first", d.windowKey)
			}
			continue
		}
		if first.producer == d.producer {
			t.Errorf("both deliveries of %s are producer %d's", d.windowKey, d.producer)
		}
	}
	same, err := makePlan(in, 10, 4)
	if err != nil || !reflect.DeepEqual(p, same) {
		t.Errorf("another plan for the same input, %v", err)
	}
	if p, err = makePlan(in, 0, 1); err != nil || len(p.deliveries) != 2000 || p.again != 0 {
		t.Errorf("without redeliveries: %d deliveries, %d again, %v", len(p.deliveries), p.again, err)
	}
	if p, err = makePlan(input{events: []event{{payload: []byte("{}")}}}, 100, 3); err != nil || len(p.deliveries) != 1 {
		t.Errorf("an event without a window key: %d deliveries, %v", len(p.deliveries), err)
	}
}

func TestLedger(t *testing.T) {
	one, two := uuid.New(), uuid.New()
	created := func(id uuid.UUID) pgqueue.Receipt { return pgqueue.Receipt{TaskID: id, Disposition: pgqueue.Created} }
	reused := func(id uuid.UUID) pgqueue.Receipt {
		return pgqueue.Receipt{TaskID: id, Disposition: pgqueue.Reused, DuplicateMatch: pgqueue.MatchWindow}
	}
	key := func(k string) delivery { return delivery{event: event{windowKey: k}} }
	for _, c := range []struct {
		name   string
		record func(l *ledger)
		want   string // in the only problem; empty for none
	}{
		{"fine", func(l *ledger) { l.record(key("a"), created(one), nil); l.record(key("a"), reused(one), nil) }, ""},
		{"an error", func(l *ledger) {
			l.record(key("a"), created(one), nil)
			l.record(key("a"), pgqueue.Receipt{}, errors.New("no"))
		}, ""},
		{"an id nobody created", func(l *ledger) { l.record(key("a"), created(one), nil); l.record(key("b"), reused(two), nil) }, "1 tasks were answered"},
		{"two tasks of a window key", func(l *ledger) { l.record(key("a"), created(one), nil); l.record(key("a"), created(two), nil) }, "window key"},
		{"created twice", func(l *ledger) { l.record(key("a"), created(one), nil); l.record(key("b"), created(one), nil) }, "created twice"},
		{"an outcome too few", func(l *ledger) { l.record(key("a"), created(one), nil) }, "offered 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			l.offer()
			l.offer()
			c.record(l)
			problems := l.audit()
			if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.want)) {
				t.Errorf("problems %q, want one with %q", problems, c.want)
			}
		})
	}
}

func TestDisplay(t *testing.T) {
	s := snapshot{planned: 10, counts: counts{Offered: 5, Created: 2}, workers: []workerState{{"worker 1", "works"}}}
	var out strings.Builder
	d := newDisplay(&out)
	d.update(s)
	d.shown = time.Now().Add(-lineEvery)
	d.update(s)
	d.update(s)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "delivered 5/10") || strings.Contains(got, "\x1b") {
		t.Errorf("without a terminal it shows %q", got)
	}
	out.Reset()
	d.draw(s.block(), 30)
	d.draw(s.block(), 30)
	for line := range strings.SplitSeq(out.String(), "\n") {
		line = strings.TrimPrefix(line, fmt.Sprintf("\x1b[%dA", len(s.block())))
		if line = strings.TrimSuffix(strings.TrimPrefix(line, "\r"), "\x1b[K"); len(line) > 29 {
			t.Errorf("a line of %d columns: %q", len(line), line)
		}
	}
	if cut("äöü", 2) != "äö" || cut("ä", -1) != "" || bar(1, 0, 3) != "[...]" || bar(5, 4, 3) != "[###]" {
		t.Error("cut or bar")
	}
}
