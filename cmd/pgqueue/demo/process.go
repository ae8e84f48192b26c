package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a worker process.
type process struct {
	name   string
	cmd    *exec.Cmd
	orders io.WriteCloser
	log    tail
	ended  chan struct{} // closed when the process is gone
	err    error         // set before ended is closed

	mu       sync.Mutex
	expected bool // its end is
}

// startWorker starts a worker process with the command. lost is called when it ends unasked.
func startWorker(command []string, name, url, namespace string, lost func(error)) (*process, error) {
	p := &process{name: name, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerURL+"="+url, workerNamespace+"="+namespace, workerName+"="+name)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.WaitDelay = time.Second
	orders, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.orders = orders
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
		if !p.isExpected() {
			lost(fmt.Errorf("%s ended unasked: %w", name, p.reason()))
		}
	}()
	return p, nil
}

func (p *process) isExpected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

func (p *process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

func (p *process) reason() error {
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	if text := p.log.String(); text != "" {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// order tells the process something. One that is gone needs to hear nothing.
func (p *process) order(text string) error {
	if _, err := io.WriteString(p.orders, text+"\n"); err != nil && p.running() {
		return fmt.Errorf("tell %s to %s: %w", p.name, text, err)
	}
	return nil
}

// kill ends the process with SIGKILL, and waits for its end.
func (p *process) kill() error {
	p.expect()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// stop lets the process drain, and kills it when that takes too long. It does nothing to one that is gone.
func (p *process) stop(ctx context.Context, patience time.Duration) error {
	p.expect()
	if !p.running() {
		return nil
	}
	if err := p.order(orderStop); err != nil {
		return errors.Join(err, p.kill())
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s did not end well: %w", p.name, p.reason())
		}
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return errors.Join(fmt.Errorf("%s did not stop in %s and was killed", p.name, patience), p.kill())
}

// stopAll stops the processes at the same time.
func stopAll(ctx context.Context, processes []*process, patience time.Duration) error {
	failed := make([]error, len(processes))
	var group sync.WaitGroup
	for i, p := range processes {
		group.Go(func() { failed[i] = p.stop(ctx, patience) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLength = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if more := len(t.text) - tailLength; more > 0 {
		t.text = bytes.Clone(t.text[more:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\ufffd"))
}
