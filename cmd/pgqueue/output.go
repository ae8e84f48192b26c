package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// output remembers the first error, so that a full disk under a redirected stdout does not pass for success.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write the output: %w", err)
	}
	return n, err
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// printJSON writes one value in one line.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// isTerminal tells whether a person watches a stream.
func isTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.w
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// table writes rows under a head, the first column to the left and the others to the right.
func table(w io.Writer, head []string, rows [][]string) {
	widths := make([]int, len(head))
	all := append([][]string{head}, rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// age writes a time span for people: its two largest units.
func age(d time.Duration) string {
	d = max(d, 0)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// when writes a time for people.
func when(t time.Time) string {
	text := t.Local().Format("2006-01-02 15:04:05.000 MST")
	if d := time.Since(t); d >= 0 {
		return text + " (" + age(d) + " ago)"
	} else if d < -time.Second {
		return text + " (in " + age(-d) + ")"
	}
	return text
}

// plural writes a count with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
