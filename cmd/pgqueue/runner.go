package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	exitDiscard = 100
	// killGrace is less than the 5 s that a worker waits after it has broken its tasks off, so that no command outlives that.
	killGrace  = 4 * time.Second
	maxTail    = 8 << 10
	maxResult  = 1 << 20
	groupCheck = 20 * time.Millisecond
)

// runner runs a shell command for each task.
type runner struct {
	app     *app
	options workOptions
	guard   *guard

	completed, failed, discarded, brokenOff atomic.Int64
}

func (r *runner) summary() workSummary {
	return workSummary{
		Completed: r.completed.Load(), Failed: r.failed.Load(), Discarded: r.discarded.Load(), BrokenOff: r.brokenOff.Load(),
	}
}

func (r *runner) run(ctx context.Context, t *task) error {
	began := time.Now()
	var stdout capture
	stderr := tail{next: r.app.errOut}
	state, err := r.command(ctx, t, &stdout, &stderr)
	out := worked{TaskID: t.ID, Name: t.Name, Queue: t.Queue, Attempt: t.Attempt, Seconds: time.Since(began).Seconds()}
	if state != nil && state.ExitCode() >= 0 {
		code := state.ExitCode()
		out.ExitCode = &code
	}
	cause := context.Cause(ctx)
	log := r.app.log.With("task", t.ID, "name", t.Name, "attempt", t.Attempt, "took", time.Since(began).Round(time.Millisecond).String())
	switch {
	case err == nil:
		out.Outcome = "completed"
		r.completed.Add(1)
		r.setResult(t, &stdout)
		log.Info("task completed")
	case errors.Is(cause, pgqueue.ErrShutdown) || errors.Is(cause, pgqueue.ErrLeaseLost):
		out.Outcome = "broken_off"
		r.brokenOff.Add(1)
	default:
		if text := stderr.text(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		out.Error = err.Error()
		out.Outcome = "failed"
		if cause == nil && out.ExitCode != nil && *out.ExitCode == exitDiscard {
			out.Outcome = "discarded"
			err = pgqueue.Discard(err)
			r.discarded.Add(1)
		} else {
			r.failed.Add(1)
		}
	}
	if r.app.json {
		err = errors.Join(err, r.app.printJSON(out))
	}
	return err
}

// command runs the shell until it has ended, and whatever it has left running in its process group.
func (r *runner) command(ctx context.Context, t *task, stdout *capture, stderr *tail) (*os.ProcessState, error) {
	cmd, started, open, err := gatedShell(ctx, r.options.command)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(),
		"PGQUEUE_TASK_ID="+t.ID.String(),
		"PGQUEUE_TASK_NAME="+t.Name,
		"PGQUEUE_QUEUE="+t.Queue,
		fmt.Sprintf("PGQUEUE_ATTEMPT=%d", t.Attempt),
		fmt.Sprintf("PGQUEUE_MAX_ATTEMPTS=%d", t.MaxAttempts),
		fmt.Sprintf("PGQUEUE_LEASE_NUMBER=%d", t.LeaseNumber),
		"PGQUEUE_METADATA="+string(t.Metadata),
	)
	cmd.Stdin = bytes.NewReader(t.Payload)
	cmd.Stderr = stderr
	switch {
	case r.options.result:
		cmd.Stdout = stdout
	case r.app.json: // stdout is for the outcomes
		cmd.Stdout = r.app.errOut
	default:
		cmd.Stdout = os.Stdout
	}
	cmd.SysProcAttr = groupOfItsOwn()
	stopped := make(chan time.Time, 1)
	cmd.Cancel = func() error {
		stopped <- time.Now()
		return signalGroup(cmd.Process, syscall.SIGTERM)
	}
	cmd.WaitDelay = killGrace
	err = cmd.Start()
	if closeErr := started(); closeErr != nil {
		r.app.log.Warn("the command's gate", "error", closeErr)
	}
	if err != nil {
		_ = open() // nobody waits at the gate
		if errors.Is(err, syscall.E2BIG) {
			return nil, fmt.Errorf("the metadata has %d bytes, too many for an environment variable: %w", len(t.Metadata), err)
		}
		return nil, fmt.Errorf("start the command: %w", err)
	}
	if err := r.guard.add(cmd.Process.Pid); err != nil {
		r.app.log.Warn("the command would outlive a worker that is killed", "task", t.ID, "error", err)
	}
	if err := open(); err != nil && !errors.Is(err, syscall.EPIPE) { // EPIPE: it was stopped before it began
		r.app.log.Warn("the command's gate", "error", err)
	}
	err = cmd.Wait()
	select {
	case at := <-stopped:
		for groupAlive(cmd.Process) && time.Since(at) < killGrace {
			time.Sleep(groupCheck)
		}
		if ctx.Err() == err { //nolint:errorlint // just what Wait returns for a command that ended well after the signal
			err = errors.New("the command was stopped")
		}
	default:
	}
	if killErr := signalGroup(cmd.Process, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, os.ErrProcessDone) {
		r.app.log.Warn("what the command left running does not end", "task", t.ID, "error", killErr)
	}
	if err := r.guard.remove(cmd.Process.Pid); err != nil {
		r.app.log.Warn("guard", "error", err)
	}
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it ended well, and something that it started held its stderr
	}
	return cmd.ProcessState, err
}

// setResult stores what the command said, when that can be stored. A task does not fail for it.
func (r *runner) setResult(t *task, stdout *capture) {
	if !r.options.result {
		return
	}
	text := bytes.TrimSpace(stdout.bytes())
	var err error
	switch {
	case len(text) == 0 && !stdout.over:
		return
	case stdout.over:
		err = fmt.Errorf("stdout has more than %d bytes", maxResult)
	case !json.Valid(text):
		err = errors.New("stdout is not JSON")
	default:
		err = t.SetResult(json.RawMessage(text))
	}
	if err != nil {
		r.app.log.Warn("no result stored", "task", t.ID, "name", t.Name, "error", err)
	}
}

// capture keeps what a result may hold, and swallows the rest.
type capture struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	over bool
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = c.over || c.buf.Len()+len(p) > maxResult; !c.over {
		c.buf.Write(p)
	}
	return len(p), nil
}

func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Bytes()
}

// tail passes everything on and keeps the end.
type tail struct {
	next io.Writer
	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - maxTail; extra > 0 {
		t.kept = append([]byte(nil), t.kept[extra:]...)
		t.cut = true
	}
	t.mu.Unlock()
	return t.next.Write(p)
}

var (
	escapes  = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])`)
	controls = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`)
)

// text is the end without colours and other control characters, ready to be stored.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	for t.cut && len(kept) > 0 && kept[0]&0xc0 == 0x80 { // the rest of a character that was cut
		kept = kept[1:]
	}
	s := strings.ToValidUTF8(string(kept), "\ufffd")
	s = escapes.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.TrimSpace(controls.ReplaceAllString(s, ""))
	if t.cut {
		s = "…" + s
	}
	return s
}
