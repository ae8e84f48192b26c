package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
)

// summary is what was done and found, in one round or in all.
type summary struct {
	seconds float64
	broken  bool // a round ended before its time
	verdict

	faults              map[string]int
	immediate, fast     int
	commitBefore        int
	commitAfter         int
	synchronous, checks int
	findings            []string
	workers             int
}

func (c *conductor) summarize() summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := summary{
		seconds: time.Since(c.began).Seconds(), verdict: c.last, faults: make(map[string]int),
		immediate: c.restarts[devserver.Immediate], fast: c.restarts[devserver.Fast],
		synchronous: c.synchronous, checks: c.checks, findings: slices.Clone(c.findings),
	}
	if c.checks == 0 {
		s.counts = c.ledger.read()
	}
	for _, f := range c.faults.all() {
		s.faults[f.kind]++
	}
	for _, k := range c.cutters {
		s.commitBefore += k.before
		s.commitAfter += k.after
	}
	for _, w := range c.slots {
		s.workers += w.generation
	}
	return s
}

// add sums up rounds.
func (s *summary) add(o summary) {
	s.seconds += o.seconds
	s.immediate += o.immediate
	s.fast += o.fast
	s.commitBefore += o.commitBefore
	s.commitAfter += o.commitAfter
	s.synchronous += o.synchronous
	s.checks += o.checks
	s.workers += o.workers
	s.findings = append(s.findings, o.findings...)
	for _, n := range [][2]*int{
		{&s.offered, &o.offered}, {&s.created, &o.created}, {&s.reused, &o.reused}, {&s.refused, &o.refused},
		{&s.active, &o.active}, {&s.window, &o.window}, {&s.both, &o.both}, {&s.conflicts, &o.conflicts},
		{&s.composition, &o.composition}, {&s.unanswered, &o.unanswered}, {&s.maybe, &o.maybe}, {&s.races, &o.races},
		{&s.recovered, &o.recovered}, {&s.unseen, &o.unseen}, {&s.tasks, &o.tasks}, {&s.successful, &o.successful},
		{&s.failed, &o.failed}, {&s.lost, &o.lost}, {&s.discarded, &o.discarded}, {&s.settledOnce, &o.settledOnce},
		{&s.ownOutcomeOnLost, &o.ownOutcomeOnLost}, {&s.executions, &o.executions}, {&s.doubles, &o.doubles}, {&s.atOnce, &o.atOnce},
	} {
		*n[0] += *n[1]
	}
	if s.faults == nil {
		s.faults, s.explained = make(map[string]int), make(map[string]int)
	}
	for kind, n := range o.faults {
		s.faults[kind] += n
	}
	for kind, n := range o.explained {
		s.explained[kind] += n
	}
}

// mostShown is how many findings are printed.
const mostShown = 40

// write prints the table and the last line.
func (s summary) write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, n any, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%v\t%s\n", what, n, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(t, "\ndone\n")
	row(faultKill, s.faults[faultKill], "with SIGKILL; %d worker processes in all", s.workers)
	row(faultStop, s.faults[faultStop], "with SIGSTOP, then SIGCONT")
	row(faultTerminate, s.faults[faultTerminate], "of workers and producers")
	row(faultRestart, s.faults[faultRestart], "%d without a checkpoint, %d fast", s.immediate, s.fast)
	row(faultCut, s.faults[faultCut], "in one direction or the other")
	row(faultDelay, s.faults[faultDelay], "")
	row(faultHole, s.faults[faultHole], "")
	row("COMMITs lost", s.commitBefore+s.commitAfter, "%d before the server had them, %d after", s.commitBefore, s.commitAfter)
	row(faultFailover, s.faults[faultFailover], "to a synchronous standby, after %d tasks on both servers", s.synchronous)
	fmt.Fprintf(t, "producers saw\n")
	row("offered", s.offered, "= created %d + reused %d + refused %d", s.created, s.reused, s.refused)
	row("reused", s.reused, "by active key %d, by window key %d, by both %d", s.active, s.window, s.both)
	row("refused", s.refused, "another request under the window key %d, keys of two tasks %d", s.conflicts, s.composition)
	row("calls without an answer", s.unanswered, "of which %d may have been committed; all sent again", s.maybe)
	fmt.Fprintf(t, "found\n")
	row("tasks", s.tasks, "= created %d + recovered by window key %d + made by a call with an active key alone whose answer was lost %d",
		s.created, s.recovered, s.unseen)
	row("settled once", s.settledOnce, "successful %d, failed %d, lost with their last attempt %d; %d outcomes written onto LOST by their own execution",
		s.successful, s.failed, s.lost, s.ownOutcomeOnLost)
	row("executions", s.executions, "by the journals of the workers")
	row("doubled", s.doubles, "%d of them while the next one ran", s.atOnce)
	for _, kind := range byWeight {
		if n := s.explained[kind]; n > 0 {
			row("  traced to", n, "%s", kind)
		}
	}
	row("checks", s.checks, "of everything, with check_invariants()")
	row("findings", len(s.findings), "")
	_ = t.Flush() // to a terminal or a pipe
	for i, f := range s.findings {
		if i == mostShown {
			fmt.Fprintf(out, "  and %d more\n", len(s.findings)-i)
			break
		}
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(f, "\n", "\n    "))
	}
	fmt.Fprintln(out, s.line())
}

func (s summary) ok() bool {
	return !s.broken && len(s.findings) == 0 && s.tasks > 0 && s.settledOnce == s.tasks
}

func (s summary) line() string {
	verdict := "ok"
	if !s.ok() {
		verdict = "FAILED"
	}
	return fmt.Sprintf("chaos: %d tasks, %d kills, %d stops, %d backends, %d restarts, %d failovers, %.0f s, %d lost, %d settled twice, %d doubled and traced : %s",
		s.tasks, s.faults[faultKill], s.faults[faultStop], s.faults[faultTerminate], s.faults[faultRestart], s.faults[faultFailover],
		s.seconds, s.count("lost: "), s.count("settled twice: "), s.doubles, verdict)
}

func (s summary) count(prefix string) (n int) {
	for _, f := range s.findings {
		if strings.HasPrefix(f, prefix) {
			n++
		}
	}
	return n
}
