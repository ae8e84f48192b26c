//go:build unix

package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// startProcess starts and waits on a goroutine that keeps its thread: the parent death signal fires when the thread
// that started the child ends, and Go ends idle threads at will.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal may find the process gone already; that is what was wanted.
func (p *process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stop sends the signal of the mode and, when that does not help in time or ctx ends, harder ones.
func (p *process) stop(ctx context.Context, mode StopMode) error {
	type attempt struct {
		signal   syscall.Signal
		patience time.Duration
	}
	attempts := []attempt{{syscall.SIGINT, 15 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}}
	if mode == Immediate {
		attempts = attempts[1:]
	}
	for i, a := range attempts {
		if !p.running() {
			return nil
		}
		if err := p.signal(a.signal); err != nil {
			return fmt.Errorf("stop server: %w", err)
		}
		cancelled := ctx.Done()
		if i > 0 {
			cancelled = nil // the harder ways are worth their few seconds also for a caller in a hurry
		}
		timer := time.NewTimer(a.patience)
		select {
		case <-p.done:
		case <-cancelled:
		case <-timer.C:
		}
		timer.Stop()
	}
	if p.running() {
		return fmt.Errorf("stop server: process %d does not end", p.cmd.Process.Pid)
	}
	return nil
}

// command prepares a server program: as the unprivileged account, in a folder that it may enter, in a process group
// of its own so that Ctrl-C in the terminal is for us only.
func command(ctx context.Context, who account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = serverEnv(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who.credential()}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverEnv drops what would change the server behind our back: PGPORT, PGDATA, the locale.
func serverEnv(environ []string) []string {
	kept := make([]string, 0, len(environ)+1)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG") {
			continue
		}
		kept = append(kept, entry)
	}
	return append(kept, "LC_ALL=C")
}

// initdb fills an empty folder that belongs to who.
func initdb(ctx context.Context, p Programs, who account, data string, extra ...string) error {
	args := []string{"-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C"}
	cmd := command(ctx, who, data, p.Path("initdb"), append(args, extra...)...)
	dieWithUs(cmd.SysProcAttr, syscall.SIGKILL)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	<-proc.done
	if proc.err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("initdb: %w", context.Cause(ctx))
		}
		return fmt.Errorf("initdb: %w\n%s", proc.err, strings.TrimSpace(out.String()))
	}
	return nil
}

// logTail makes the end of a log readable in an error.
func logTail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("(server log: %v)", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 30 {
		lines = lines[len(lines)-30:]
	}
	return "server log:\n  " + strings.Join(lines, "\n  ")
}
