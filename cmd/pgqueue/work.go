package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

type workOptions struct {
	queues                           []string
	command                          string
	concurrency                      int
	drain, result                    bool
	lease, poll, reap, drainInterval duration
}

func newWorkCommand(a *app) *cobra.Command {
	o := workOptions{
		lease: duration(30 * time.Second), poll: duration(time.Second), reap: duration(5 * time.Second), drainInterval: duration(30 * time.Second),
	}
	cmd := &cobra.Command{
		Use:   "work --exec COMMAND",
		Short: "Run a shell command for each task",
		Long: `Claims tasks and runs sh -c COMMAND for each, with the payload on stdin and these
variables in the environment:

  PGQUEUE_TASK_ID  PGQUEUE_TASK_NAME  PGQUEUE_QUEUE  PGQUEUE_METADATA
  PGQUEUE_ATTEMPT  PGQUEUE_MAX_ATTEMPTS  PGQUEUE_LEASE_NUMBER

The command's exit code decides:

  0      the task is done; with --result, stdout is stored with it if it is JSON
  100    the task is discarded, whatever attempts are left
  other  the attempt failed, with the end of stderr as its error: the task is tried
         again after its backoff while attempts are left (75, EX_TEMPFAIL, likewise)

The first Ctrl-C or SIGTERM drains: nothing more is claimed, what runs may end
within --drain-timeout. The second breaks it off, and the tasks go back to the
queue. A command that is to stop (also on a timeout or a cancel) gets SIGTERM
with its whole process group, and SIGKILL 4 s later. What a command leaves running
in its group when it ends is killed too.

A worker that is killed takes its commands with it; its tasks are given to others
when its lease has expired.

A task may so run twice: commands must bear that. PGQUEUE_LEASE_NUMBER grows with
every run of a task.`,
		Example: `  pgqueue work --exec 'jq .'
  pgqueue work --queue mail --queue bulk --concurrency 4 --exec './send-mail'
  pgqueue work --exec 'curl -fsS --json @- https://example.com/hook' --drain`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if _, err := exec.LookPath("sh"); err != nil {
				return fmt.Errorf("commands run through sh: %w", err)
			}
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error { return a.work(cmd.Context(), c, o) })
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.command, "exec", "", "the shell `command` to run for each task (required)")
	flags.StringArrayVar(&o.queues, "queue", []string{"default"}, "a `queue` to work on; repeat it for more, the first goes first")
	flags.IntVar(&o.concurrency, "concurrency", 1, "how many commands run at once")
	flags.BoolVar(&o.drain, "drain", false, "end when no task is due and none runs; what is scheduled for later stays")
	flags.BoolVar(&o.result, "result", false, "store the command's stdout with the task, if it is JSON")
	flags.Var(&o.lease, "lease", "how long a silent worker keeps its tasks")
	flags.Var(&o.poll, "poll", "how often to look for tasks that no notification told of")
	flags.Var(&o.reap, "reap", "how often to take back tasks of workers that fell silent")
	flags.Var(&o.drainInterval, "drain-timeout", "how long what runs may go on after the first signal")
	return cmd
}

func (o workOptions) check() error {
	switch {
	case o.command == "":
		return usagef("--exec is required: the shell command to run for each task")
	case o.concurrency < 1 || o.concurrency > 1000:
		return usagef("--concurrency is %d, it must be from 1 to 1000", o.concurrency)
	}
	for _, queue := range o.queues {
		if queue == "" {
			return usagef("--queue is empty")
		}
	}
	for _, d := range []struct {
		name   string
		length duration
	}{{"lease", o.lease}, {"poll", o.poll}, {"reap", o.reap}, {"drain-timeout", o.drainInterval}} {
		if d.length <= 0 {
			return usagef("--%s must be positive", d.name)
		}
	}
	return nil
}

func (a *app) work(ctx context.Context, c *pgqueue.Client, o workOptions) error {
	w := pgqueue.NewWorker(c, pgqueue.WorkerConfig{
		Queues: o.queues, Concurrency: o.concurrency, Lease: time.Duration(o.lease), PollInterval: time.Duration(o.poll),
		ReapInterval: time.Duration(o.reap), DrainTimeout: time.Duration(o.drainInterval), ExitWhenEmpty: o.drain, Logger: a.log,
	})
	g, err := newGuard()
	if err != nil {
		return err
	}
	r := &runner{app: a, options: o, guard: g}
	pgqueue.HandleOther(w, r.run)

	began := time.Now()
	done := make(chan struct{})
	defer close(done)
	go a.obey(done, w)
	a.log.Info("working", "queues", o.queues, "namespace", c.Namespace(), "concurrency", o.concurrency)
	err = errors.Join(w.Run(ctx), g.close())
	s := r.summary()
	s.Seconds = time.Since(began).Seconds()
	a.log.Info("ended", "completed", s.Completed, "failed", s.Failed, "discarded", s.Discarded, "broken_off", s.BrokenOff,
		"after", time.Since(began).Round(time.Millisecond).String())
	if a.json {
		err = errors.Join(err, a.printJSON(map[string]any{"summary": s}))
	}
	if err == nil && ctx.Err() != nil && s.BrokenOff > 0 {
		err = fmt.Errorf("%s broken off", plural(s.BrokenOff, "command"))
	}
	return err
}

// obey follows the signals: the first ends the context of the command, which the worker takes as the order to drain.
func (a *app) obey(done <-chan struct{}, w *pgqueue.Worker) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	defer signal.Stop(signals)
	for count := 1; ; count++ {
		select {
		case <-done:
			return
		case s := <-signals:
			switch count {
			case 1:
				a.log.Info("draining: waiting for what runs; signal again to break it off", "signal", s.String())
			case 2:
				a.log.Warn("breaking off what runs; its tasks go back to the queue", "signal", s.String())
				w.Abandon()
			default:
				a.log.Error("ending at once", "signal", s.String())
				os.Exit(exitError)
			}
		}
	}
}

// worked is the outcome of one command as JSON.
type worked struct {
	TaskID   pgqueue.TaskID `json:"task_id"`
	Name     string         `json:"name"`
	Queue    string         `json:"queue"`
	Attempt  int            `json:"attempt"`
	Outcome  string         `json:"outcome"`
	ExitCode *int           `json:"exit_code,omitempty"`
	Seconds  float64        `json:"seconds"`
	Error    string         `json:"error,omitempty"`
}

type workSummary struct {
	Completed int64   `json:"completed"`
	Failed    int64   `json:"failed"`
	Discarded int64   `json:"discarded"`
	BrokenOff int64   `json:"broken_off"`
	Seconds   float64 `json:"seconds"`
}

// task is a task whose payload stays text.
type task = pgqueue.Task[json.RawMessage]
