package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newStatsCommand(a *app) *cobra.Command {
	var watch duration
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count tasks by queue and state",
		Long: `Counts the tasks of the namespace by queue and state. OLDEST is how long the
longest waiting due task has been due. It reads every task that has not been
pruned.`,
		Example: `  pgqueue stats
  pgqueue stats --watch 2s
  pgqueue stats --json | jq 'select(.failed > 0)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("watch") && watch <= 0 {
				return usagef("--watch must be positive")
			}
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error { return a.stats(cmd.Context(), c, time.Duration(watch)) })
		},
	}
	cmd.Flags().Var(&watch, "watch", "count again after this long, until Ctrl-C")
	return cmd
}

func (a *app) stats(ctx context.Context, c *pgqueue.Client, watch time.Duration) error {
	for first := true; ; first = false {
		stats, err := c.Stats(ctx)
		switch {
		case err != nil && watch > 0 && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if watch > 0 && !a.json {
			if isTerminal(a.out) {
				a.printf("\x1b[H\x1b[2J")
			} else if !first {
				a.printf("\n")
			}
			a.printf("%s, every %s\n\n", time.Now().Format(time.TimeOnly), watch)
		}
		if err := a.printStats(stats, c.Namespace()); err != nil || watch == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watch):
		}
	}
}

type queueStat struct {
	At            time.Time  `json:"at"`
	Queue         string     `json:"queue"`
	Ready         int64      `json:"ready"`
	Scheduled     int64      `json:"scheduled"`
	Running       int64      `json:"running"`
	Successful    int64      `json:"successful"`
	Failed        int64      `json:"failed"`
	Lost          int64      `json:"lost"`
	Discarded     int64      `json:"discarded"`
	OldestReadyAt *time.Time `json:"oldest_ready_at"`
	Paused        bool       `json:"paused"`
}

func (a *app) printStats(stats []pgqueue.QueueStat, namespace string) error {
	now := time.Now()
	if a.json {
		for _, s := range stats {
			err := a.printJSON(queueStat{
				now, s.Queue, s.Ready, s.Scheduled, s.Running, s.Successful, s.Failed, s.Lost, s.Discarded, s.OldestReadyAt, s.Paused,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(stats) == 0 {
		a.printf("no tasks in namespace %q\n", namespace)
		return nil
	}
	rows := make([][]string, len(stats))
	for i, s := range stats {
		name, oldest := s.Queue, "-"
		if s.Paused {
			name += " (paused)"
		}
		if s.OldestReadyAt != nil {
			oldest = age(now.Sub(*s.OldestReadyAt))
		}
		rows[i] = []string{name}
		for _, n := range []int64{s.Ready, s.Scheduled, s.Running, s.Successful, s.Failed, s.Lost, s.Discarded} {
			rows[i] = append(rows[i], strconv.FormatInt(n, 10))
		}
		rows[i] = append(rows[i], oldest)
	}
	table(a.out, []string{"QUEUE", "READY", "SCHEDULED", "RUNNING", "SUCCESSFUL", "FAILED", "LOST", "DISCARDED", "OLDEST"}, rows)
	return nil
}
