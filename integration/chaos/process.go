package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// slot is the place of a worker process: when one is killed, the next of the slot takes over with a new name and the same proxy.
type slot struct {
	name string
	url  string
	dir  string
	// unasked is called when a process ends that nobody ended.
	unasked func(error)

	mu         sync.Mutex
	busy       bool // a fault is under way
	generation int
	process    *process
}

type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser // its end is the end of the process, should we go without a word
	ended chan struct{}
	err   error // set before ended is closed

	mu       sync.Mutex
	expected bool
}

func (s *slot) start() error {
	s.generation++
	name := fmt.Sprintf("%s.%d", s.name, s.generation)
	spec, err := json.Marshal(workerSpec{URL: s.url, Name: name, Journal: filepath.Join(s.dir, name+journalSuffix)})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	p := &process{name: name, cmd: exec.Command(self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = dieWithUs()
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return errors.Join(err, log.Close())
	}
	started := make(chan error, 1)
	go func() {
		// The signal that a child gets at its parent's death comes when the thread ends that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := errors.Join(p.cmd.Start(), log.Close())
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		if !p.isExpected() {
			s.unasked(fmt.Errorf("worker %s ended unasked: %w\n%s", name, p.err, tailOf(log.Name())))
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start worker %s: %w", name, err)
	}
	s.process = p
	return nil
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

func (p *process) kill() error {
	p.expect()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// drain asks the process to end and waits for it; one that does not is a finding, and is killed.
func (p *process) drain(patience time.Duration) error {
	p.expect()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("worker %s: %w", p.name, err), p.kill())
	}
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("worker %s did not end well when asked to: %w", p.name, p.err)
		}
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("worker %s did not end in %s", p.name, patience), p.kill())
	}
}

// take reserves the slot for a fault that lasts.
func (s *slot) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return false
	}
	s.busy = true
	return true
}

func (s *slot) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

func tailOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
