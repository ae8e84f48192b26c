package demo

import (
	"encoding/json"
	"fmt"
	"io"
)

// summary is what the demo ends with.
type summary struct {
	Source  string  `json:"source"`
	Lines   int     `json:"lines"`
	Skipped int     `json:"skipped"`
	Planned int     `json:"planned"`
	Seconds float64 `json:"seconds"`
	counts
	Retried  int      `json:"retried"`
	Reaped   int      `json:"reaped"`
	Settled  int      `json:"settled"`
	Stored   stored   `json:"stored"`
	Looks    int      `json:"looks"`       // how often the demo looked for keys with two pending tasks
	Killed   string   `json:"killed"`      // name of the worker that was killed, or nothing
	Held     int      `json:"killed_held"` // how many tasks it held then
	Texts    []string `json:"error_texts"` // the first few errors
	Problems []string `json:"problems"`    // what does not add up
	OK       bool     `json:"ok"`
}

// line is the last line of the demo.
func (s summary) line() string {
	verdict := "ok"
	if !s.OK {
		verdict = "NOT OK"
	}
	return fmt.Sprintf("demo: offered %d, created %d, reused %d (active %d, window %d, both %d), conflicts %d, errors %d, retried %d, reaped %d, settled %d: %s",
		s.Offered, s.Created, s.Reused, s.Active, s.Window, s.Both, s.Conflicts, s.Errors, s.Retried, s.Reaped, s.Settled, verdict)
}

func (s summary) write(out io.Writer) {
	if s.Offered < s.Planned {
		fmt.Fprintf(out, "the time was up: %d of %d deliveries were made\n", s.Offered, s.Planned)
	}
	fmt.Fprintf(out, "checked in the database: %d tasks: %d successful, %d failed, %d lost, %d discarded, %d pending\n",
		s.Stored.Tasks, s.Stored.Successful, s.Stored.Failed, s.Stored.Lost, s.Stored.Discarded, s.Stored.Pending)
	fmt.Fprintf(out, "conflicts: %d times the window key with another body, %d times the keys of two tasks\n", s.OtherBody, s.Composition)
	if s.Killed != "" {
		fmt.Fprintf(out, "%s was killed while it held %d tasks\n", s.Killed, s.Held)
	} else {
		fmt.Fprintln(out, "no worker was killed: the one that should be never held a task when the demo looked")
	}
	fmt.Fprintf(out, "looked %d times for active keys with two pending tasks\n", s.Looks)
	for _, text := range s.Texts {
		fmt.Fprintf(out, "error: %s\n", text)
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(out, "does not add up: %s\n", problem)
	}
}

func (s summary) writeJSON(out io.Writer) error {
	return json.NewEncoder(out).Encode(s)
}
