//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guardScript keeps a list of process groups. Its stdin ends when the worker does, however that comes about, and it kills what
// is left. It outlives the signals that end the worker.
const guardScript = `trap '' HUP INT TERM
while read -r what group; do
	if [ "$what" = + ]; then
		groups="$groups $group"
	else
		rest=
		for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
		groups=$rest
	fi
done
for g in $groups; do kill -9 "-$g"; done
`

// guard is a process beside the worker that kills the commands of a worker that was killed, with all that they have started.
type guard struct {
	cmd *exec.Cmd

	mu sync.Mutex
	in io.WriteCloser
}

func newGuard() (*guard, error) {
	cmd := exec.Command("sh", "-c", guardScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guard{cmd: cmd, in: in}, nil
}

func (g *guard) add(group int) error    { return g.tell("+", group) }
func (g *guard) remove(group int) error { return g.tell("-", group) }

func (g *guard) tell(what string, group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintln(g.in, what, group); err != nil {
		return fmt.Errorf("tell the guard: %w", err)
	}
	return nil
}

func (g *guard) close() error { return errors.Join(g.in.Close(), g.cmd.Wait()) }

// gateScript begins its command when it is told so, and never when who would tell it is dead.
const gateScript = `read -r go <&3 && exec 3<&- && exec sh -c "$1"`

// gatedShell makes a shell command that waits, once started, until open is called: so the guard knows its group before it does anything.
// started releases what only the new process needs.
func gatedShell(ctx context.Context, command string) (cmd *exec.Cmd, started, open func() error, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the command's gate: %w", err)
	}
	cmd = exec.CommandContext(ctx, "sh", "-c", gateScript, "sh", command)
	cmd.ExtraFiles = []*os.File{in}
	open = func() error {
		_, err := fmt.Fprintln(out, "go")
		return errors.Join(err, out.Close())
	}
	return cmd, in.Close, open, nil
}
