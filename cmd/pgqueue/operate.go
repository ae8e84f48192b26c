package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newRetryCommand(a *app) *cobra.Command {
	return a.operation("retry ID...", "Run FAILED, LOST or DISCARDED tasks again",
		`Makes each task READY at once, with at least one more attempt. It says so when a
newer task holds the active key of one: that one then runs beside the newer task.`,
		func(ctx context.Context, c *pgqueue.Client, id pgqueue.TaskID) (operated, error) {
			r, err := c.Retry(ctx, id)
			o := operated{ID: id, Done: "RETRIED", Status: pgqueue.Ready}
			if r.KeyHolderID != nil {
				o.KeyHolderID = r.KeyHolderID
				o.remark = fmt.Sprintf("beside %s, a newer task that holds its key", r.KeyHolderID)
			}
			return o, err
		})
}

func newDiscardCommand(a *app) *cobra.Command {
	return a.operation("discard ID...", "Close READY, FAILED or LOST tasks for good",
		`Makes each task DISCARDED. A READY one frees its active key by that. To stop a
RUNNING one, use pgqueue cancel.`,
		func(ctx context.Context, c *pgqueue.Client, id pgqueue.TaskID) (operated, error) {
			return operated{ID: id, Done: "DISCARDED", Status: pgqueue.Discarded}, c.Discard(ctx, id)
		})
}

func newCancelCommand(a *app) *cobra.Command {
	return a.operation("cancel ID...", "Stop RUNNING tasks, discard READY ones",
		`Asks each RUNNING task to stop: its worker learns it when it renews its lease next,
and the task is then DISCARDED, or SUCCESSFUL if it was faster. A READY task is
DISCARDED at once.`,
		func(ctx context.Context, c *pgqueue.Client, id pgqueue.TaskID) (operated, error) {
			status, err := c.Cancel(ctx, id)
			o := operated{ID: id, Done: "DISCARDED", Status: status}
			if status == pgqueue.Running {
				o.Done, o.remark = "STOPPING", "it runs; its worker will be told"
			}
			return o, err
		})
}

// operated is what came of one id.
type operated struct {
	ID          pgqueue.TaskID     `json:"id"`
	Done        string             `json:"done,omitempty"`
	Status      pgqueue.TaskStatus `json:"status,omitempty"`
	KeyHolderID *pgqueue.TaskID    `json:"key_holder_id,omitempty"`
	Error       *problem           `json:"error,omitempty"`

	remark string
}

// operation is a command that does one thing to each of several tasks.
func (a *app) operation(use, short, long string, do func(context.Context, *pgqueue.Client, pgqueue.TaskID) (operated, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long + "\n\nEach id has a line of output. All are tried; the exit code is 1 if one failed.",
		Args:  atLeastOneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error {
				return a.operate(cmd.Context(), ids, func(id pgqueue.TaskID) (operated, error) { return do(cmd.Context(), c, id) })
			})
		},
	}
	cmd.Example = "  pgqueue " + cmd.Name() + " 0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e"
	return cmd
}

func (a *app) operate(ctx context.Context, ids []pgqueue.TaskID, do func(pgqueue.TaskID) (operated, error)) error {
	failed := false
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		o, err := do(id)
		if err != nil {
			failed = true
			p := explain(err)
			o = operated{ID: id, Error: &p}
		}
		switch {
		case a.json:
			if err := a.printJSON(o); err != nil {
				return err
			}
		case o.Error != nil:
			writeProblem(a.errOut, *o.Error)
		case o.remark != "":
			a.printf("%s %s: %s\n", o.Done, id, o.remark)
		default:
			a.printf("%s %s\n", o.Done, id)
		}
	}
	if failed {
		return errSilent
	}
	return nil
}
