package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// workerProcess is this program again, as the worker of a cell.
type workerProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	events *bufio.Scanner
	stderr bytes.Buffer
	marks  []event
	cancel context.CancelFunc
}

// cellTimeout ends a worker whose tasks do not.
const cellTimeout = 10 * time.Minute

// startWorker starts a worker process and waits until it is warm. Its tasks for that must be there.
func startWorker(ctx context.Context, spec workerSpec) (*workerProcess, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cellTimeout)
	w := &workerProcess{cmd: exec.CommandContext(ctx, self), cancel: cancel}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(text)) // not an argument: the URL may hold a password
	w.cmd.Stderr = &w.stderr
	var inErr, outErr error
	var out io.Reader
	w.in, inErr = w.cmd.StdinPipe()
	out, outErr = w.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		cancel()
		return nil, err
	}
	w.events = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	if _, err := w.await(eventReady, 0); err != nil {
		return nil, err
	}
	return w, nil
}

// await reads events until one of a kind, a mark of at least so many tasks, comes.
func (w *workerProcess) await(kind string, tasks int) (event, error) {
	for w.events.Scan() {
		var e event
		if err := json.Unmarshal(w.events.Bytes(), &e); err != nil {
			return e, w.abandon(fmt.Errorf("worker says %q: %w", w.events.Text(), err))
		}
		if e.Event == eventMark {
			w.marks = append(w.marks, e)
		}
		if e.Event == kind && e.Tasks >= tasks {
			return e, nil
		}
	}
	return event{}, w.abandon(errors.Join(fmt.Errorf("the worker ended before it said %q", kind), w.events.Err()))
}

// abandon ends the process and adds what it had to say to an error.
func (w *workerProcess) abandon(err error) error {
	defer w.cancel()
	killErr := w.cmd.Process.Kill()
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	waitErr := w.cmd.Wait()
	return errors.Join(err, killErr, waitErr, errors.New(w.stderr.String()))
}

// begin lets the worker work.
func (w *workerProcess) begin() error {
	_, err := io.WriteString(w.in, "go\n")
	return err
}

// end makes the worker drain and returns what it says of itself.
func (w *workerProcess) end() (event, error) {
	if err := w.in.Close(); err != nil {
		return event{}, w.abandon(err)
	}
	last, err := w.await(eventEnd, 0)
	if err != nil {
		return last, err
	}
	defer w.cancel()
	if err := w.cmd.Wait(); err != nil {
		return last, errors.Join(err, errors.New(w.stderr.String()))
	}
	if w.stderr.Len() > 0 {
		fmt.Fprint(os.Stderr, w.stderr.String())
	}
	return last, nil
}

// between returns the time from the first handler's start to that of the task with a number, which has a mark.
func (w *workerProcess) between(tasks int) (time.Duration, error) {
	var first, last int64
	for _, m := range w.marks {
		switch m.Tasks {
		case 1:
			first = m.At
		case tasks:
			last = m.At
		}
	}
	if first == 0 || last == 0 {
		return 0, fmt.Errorf("the worker did not report tasks 1 and %d", tasks)
	}
	return time.Duration(last - first), nil
}

// windows returns the rate of each so many tasks.
func (w *workerProcess) windows(size, total int) ([]float64, error) {
	var rates []float64
	var before time.Duration
	for n := size; n <= total; n += size {
		until, err := w.between(n)
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(size)/(until-before).Seconds())
		before = until
	}
	return rates, nil
}
