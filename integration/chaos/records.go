package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// How an execution ended, as its worker noted it.
const (
	endedOK     = "ok"
	endedFail   = "fail"
	endedSnooze = "snooze"
	endedBroken = "broken" // its context ended
)

// journal is what a worker process notes outside the database, one write(2) for each line, so that nothing is lost when the process
// is killed. Lines: B time task lease-number, E time task lease-number how, T from to (the process did not run in between).
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(file string) (*journal, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: f}, nil
}

func (j *journal) line(format string, args ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err := fmt.Fprintf(j.file, format+"\n", args...)
	return err
}

func (j *journal) begin(id uuid.UUID, lease int) error {
	return j.line("B %d %s %d", time.Now().UnixNano(), id, lease)
}

func (j *journal) end(id uuid.UUID, lease int, how string) error {
	return j.line("E %d %s %d %s", time.Now().UnixNano(), id, lease, how)
}

func (j *journal) stalled(from, to time.Time) error {
	return j.line("T %d %d", from.UnixNano(), to.UnixNano())
}

// execution is one run of a task.
type execution struct {
	task    uuid.UUID
	lease   int
	process string
	begin   time.Time
	end     time.Time // zero when the process did not live to note it
	how     string
}

type execKey struct {
	task  uuid.UUID
	lease int
}

// notes are the journals of all workers.
type notes struct {
	executions []*execution
	stalls     []fault
	problems   []string
}

func readJournals(dir string) (notes, error) {
	var n notes
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix))
	if err != nil {
		return n, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return n, err
		}
		if err := n.read(strings.TrimSuffix(filepath.Base(file), journalSuffix), text); err != nil {
			return n, fmt.Errorf("%s: %w", file, err)
		}
	}
	return n, nil
}

func (n *notes) read(process string, text []byte) error {
	open := make(map[execKey]*execution)
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			break // being written
		}
		text = rest
		f := strings.Fields(string(line))
		if len(f) < 3 {
			return fmt.Errorf("line %q", line)
		}
		at, err := nanoseconds(f[1])
		if err != nil {
			return err
		}
		if f[0] == "T" {
			to, err := nanoseconds(f[2])
			if err != nil {
				return err
			}
			n.stalls = append(n.stalls, fault{kind: faultStall, scope: process, from: at, to: to})
			continue
		}
		id, idErr := uuid.Parse(f[2])
		lease, leaseErr := strconv.Atoi(f[3])
		if err := errors.Join(idErr, leaseErr); err != nil {
			return err
		}
		key := execKey{id, lease}
		switch x := open[key]; {
		case f[0] == "B" && x != nil:
			n.problems = append(n.problems, fmt.Sprintf("task %s was run twice by %s under lease number %d", id, process, lease))
		case f[0] == "B":
			x = &execution{task: id, lease: lease, process: process, begin: at}
			open[key] = x
			n.executions = append(n.executions, x)
		case x == nil:
			return fmt.Errorf("end without a begin: %q", line)
		default:
			x.end, x.how = at, f[4]
		}
	}
	return nil
}

func nanoseconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, n), err
}
