package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newPruneCommand(a *app) *cobra.Command {
	retention := duration(7 * 24 * time.Hour)
	var failedRetention duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete settled tasks past their retention",
		Long: `Deletes settled tasks of the namespace with their attempts, expired windows and
stale locks, in small batches. Pending tasks are never deleted, and an open window
outlives its task. FAILED and LOST tasks stay unless --failed-retention is given.`,
		Example: `  pgqueue prune
  pgqueue prune --retention 12h --failed-retention 30d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if retention < 0 || failedRetention < 0 {
				return usagef("a retention must not be negative")
			}
			options := pgqueue.PruneOptions{Retention: (*time.Duration)(&retention)}
			if cmd.Flags().Changed("failed-retention") {
				options.FailedRetention = (*time.Duration)(&failedRetention)
			}
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error { return a.prune(cmd.Context(), c, options) })
		},
	}
	cmd.Flags().Var(&retention, "retention", "delete SUCCESSFUL and DISCARDED tasks that ended this long ago")
	cmd.Flags().Var(&failedRetention, "failed-retention", "delete FAILED and LOST tasks that ended this long ago (default: keep them)")
	return cmd
}

func (a *app) prune(ctx context.Context, c *pgqueue.Client, options pgqueue.PruneOptions) error {
	var total pgqueue.Pruned
	shown := false
	for more := true; more; {
		var part pgqueue.Pruned
		var err error
		if part, more, err = c.PruneBatch(ctx, options); err != nil {
			if shown {
				fmt.Fprint(a.errOut, "\r\x1b[K")
			}
			if total.Tasks > 0 {
				a.note(fmt.Sprintf("%s deleted before the error", plural(total.Tasks, "task")))
			}
			return err
		}
		total.Tasks += part.Tasks
		total.Windows += part.Windows
		total.Locks += part.Locks
		if more && isTerminal(a.errOut) {
			shown = true
			fmt.Fprintf(a.errOut, "\r\x1b[K%s deleted", plural(total.Tasks, "task"))
		}
	}
	if shown {
		fmt.Fprint(a.errOut, "\r\x1b[K")
	}
	if a.json {
		return a.printJSON(map[string]int64{"tasks": total.Tasks, "windows": total.Windows, "locks": total.Locks})
	}
	a.printf("deleted %s, %s, %s\n", plural(total.Tasks, "task"), plural(total.Windows, "expired window"), plural(total.Locks, "stale lock"))
	return nil
}

func newReapCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reap",
		Short: "Take back the tasks of workers that fell silent",
		Long: `Takes back the tasks of workers whose lease has expired: READY again while attempts
are left, LOST on the last. Every worker does it by itself; this is for a time
when none runs.`,
		Example: `  pgqueue reap`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error { return a.reap(cmd.Context(), c) })
		},
	}
}

func (a *app) reap(ctx context.Context, c *pgqueue.Client) error {
	var total pgqueue.Reaped
	for {
		part, err := c.Reap(ctx)
		if err != nil {
			return err
		}
		total.Requeued += part.Requeued
		total.Lost += part.Lost
		total.Discarded += part.Discarded
		if part.Requeued+part.Lost+part.Discarded == 0 { // one call is bounded
			break
		}
	}
	if a.json {
		return a.printJSON(map[string]int64{"requeued": total.Requeued, "lost": total.Lost, "discarded": total.Discarded})
	}
	a.printf("%s back in the queue, %d lost, %d discarded\n", plural(total.Requeued, "task"), total.Lost, total.Discarded)
	return nil
}
