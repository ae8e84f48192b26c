package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// snapshot is what the display shows.
type snapshot struct {
	elapsed time.Duration
	planned int
	counts  counts
	tasks   progress
	workers []workerState
	// Deliveries and settled tasks per second, of late.
	offeredRate, settledRate float64
}

type workerState struct {
	name, state string
}

// display shows snapshots: as a block that is drawn over and over on a terminal, as lines elsewhere.
type display struct {
	out      io.Writer
	terminal *os.File // nil: lines
	drawn    int      // lines of the block on the screen
	shown    time.Time
	past     []sample
}

type sample struct {
	at               time.Time
	offered, settled int
}

const (
	redrawEvery = 200 * time.Millisecond
	lineEvery   = 2 * time.Second
	rateWindow  = 2 * time.Second
)

func newDisplay(out io.Writer) *display {
	d := &display{out: out, shown: time.Now()}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		d.terminal = file
	}
	return d
}

// update shows a snapshot. On a terminal every one is shown, elsewhere one in two seconds.
func (d *display) update(s snapshot) {
	now := time.Now()
	s.offeredRate, s.settledRate = d.rates(now, s)
	if d.terminal != nil {
		width, height, err := term.GetSize(int(d.terminal.Fd()))
		block := s.block()
		if err == nil && height > len(block)+1 && width > 0 {
			d.draw(block, width)
			return
		}
	}
	if now.Sub(d.shown) < lineEvery {
		return
	}
	d.shown, d.drawn = now, 0
	fmt.Fprintln(d.out, s.line())
}

func (d *display) rates(now time.Time, s snapshot) (offered, settled float64) {
	d.past = append(d.past, sample{now, s.counts.Offered, s.tasks.Settled})
	for len(d.past) > 2 && now.Sub(d.past[1].at) >= rateWindow {
		d.past = d.past[1:]
	}
	first := d.past[0]
	seconds := now.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(s.counts.Offered-first.offered) / seconds, float64(s.tasks.Settled-first.settled) / seconds
}

// draw writes the block over the one before, cut to the width so that no line wraps.
func (d *display) draw(block []string, width int) {
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.drawn)
	}
	for _, line := range block {
		b.WriteString("\r" + cut(line, width-1) + "\x1b[K\n")
	}
	d.drawn = len(block)
	fmt.Fprint(d.out, b.String())
}

func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(width, 0)])
}

func (s snapshot) block() []string {
	c, t := s.counts, s.tasks
	var workers []string
	for _, w := range s.workers {
		workers = append(workers, w.name+" "+w.state)
	}
	return []string{
		"",
		fmt.Sprintf("  delivered  %7d of %d   %s %4.1f s   %5.0f/s", c.Offered, s.planned, bar(c.Offered, s.planned, 24), s.elapsed.Seconds(), s.offeredRate),
		fmt.Sprintf("  created    %7d", c.Created),
		fmt.Sprintf("  reused     %7d   by active key %d, by window key %d, by both %d", c.Reused, c.Active, c.Window, c.Both),
		fmt.Sprintf("  conflicts  %7d   same window key with another body %d, keys of two tasks %d", c.Conflicts, c.OtherBody, c.Composition),
		fmt.Sprintf("  errors     %7d", c.Errors),
		"",
		fmt.Sprintf("  pending    %7d   ready %d, in backoff %d, running %d", t.pending(), t.Ready, t.Scheduled, t.Running),
		fmt.Sprintf("  settled    %7d   %s %5s   %5.0f/s", t.Settled, bar(t.Settled, c.Created, 24), "", s.settledRate),
		fmt.Sprintf("  retried    %7d   after a failed attempt", t.Retried),
		fmt.Sprintf("  reaped     %7d   from a worker that fell silent", t.Reaped),
		fmt.Sprintf("  doubled    %7d   active keys with two pending tasks", t.Doubled),
		"  " + strings.Join(workers, ", "),
		"",
	}
}

func (s snapshot) line() string {
	c, t := s.counts, s.tasks
	return fmt.Sprintf("%5.1f s  delivered %d/%d (%.0f/s), created %d, reused %d (active %d, window %d, both %d), conflicts %d, errors %d,"+
		" pending %d, retried %d, reaped %d, settled %d (%.0f/s)",
		s.elapsed.Seconds(), c.Offered, s.planned, s.offeredRate, c.Created, c.Reused, c.Active, c.Window, c.Both, c.Conflicts, c.Errors,
		t.pending(), t.Retried, t.Reaped, t.Settled, s.settledRate)
}

func bar(part, whole, width int) string {
	full := 0
	if whole > 0 {
		full = min(part*width/whole, width)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
