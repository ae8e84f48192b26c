// Command pgqueue sets up, feeds, works and repairs a task queue that lives inside PostgreSQL.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:])) }

// The exit codes of the command.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	// The second signal ends a command that does not end by the first; the worker has a meaning of its own for it.
	context.AfterFunc(ctx, stop)

	a := &app{in: os.Stdin, out: &output{w: os.Stdout}, errOut: os.Stderr}
	root := newRootCommand(a)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil && a.out.err != nil {
		err = a.out.err
	}
	if err == nil {
		return exitOK
	}
	return a.report(command.CommandPath(), err)
}

// endings are the signals to end by. A hangup is not, under nohup.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
