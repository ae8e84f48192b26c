package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newTaskCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "task ID",
		Short: "Show all of a task, with its failed attempts",
		Example: `  pgqueue task 0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e
  pgqueue task --json 0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e | jq .attempts`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIDs(args)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *pgqueue.Client) error { return a.showTask(cmd.Context(), c, id[0]) })
		},
	}
}

func oneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("give the id of one task")
	}
	return nil
}

func atLeastOneID(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("give the id of at least one task")
	}
	return nil
}

// parseIDs looks at all ids before anything is done.
func parseIDs(args []string) ([]pgqueue.TaskID, error) {
	ids := make([]pgqueue.TaskID, len(args))
	for i, arg := range args {
		id, err := uuid.Parse(arg)
		if err != nil {
			return nil, usagef("%q is not a task's id, such as 0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e", arg)
		}
		ids[i] = id
	}
	return ids, nil
}

type taskOut struct {
	Namespace         string             `json:"namespace"`
	ID                pgqueue.TaskID     `json:"id"`
	Name              string             `json:"name"`
	Queue             string             `json:"queue"`
	Status            pgqueue.TaskStatus `json:"status"`
	Priority          int                `json:"priority"`
	Attempt           int                `json:"attempt"`
	MaxAttempts       int                `json:"max_attempts"`
	RunAfter          time.Time          `json:"run_after"`
	CreatedAt         time.Time          `json:"created_at"`
	StartedAt         *time.Time         `json:"started_at"`
	FinishedAt        *time.Time         `json:"finished_at"`
	CancelRequestedAt *time.Time         `json:"cancel_requested_at"`
	LeaseNumber       int                `json:"lease_number"`
	Worker            *string            `json:"worker"`
	ActiveKey         *string            `json:"active_key"`
	Payload           json.RawMessage    `json:"payload"`
	Metadata          json.RawMessage    `json:"metadata"`
	ResourceKeys      []string           `json:"resource_keys"`
	Policy            json.RawMessage    `json:"policy"`
	Result            json.RawMessage    `json:"result"`
	Progress          json.RawMessage    `json:"progress"`
	Attempts          []attemptOut       `json:"attempts"`
}

type attemptOut struct {
	Attempt     int        `json:"attempt"`
	LeaseNumber int        `json:"lease_number"`
	Outcome     string     `json:"outcome"`
	Worker      *string    `json:"worker"`
	StartedAt   *time.Time `json:"started_at"`
	FinishedAt  time.Time  `json:"finished_at"`
	Error       *string    `json:"error"`
	ErrorTrace  *string    `json:"error_trace,omitempty"`
}

func (a *app) showTask(ctx context.Context, c *pgqueue.Client, id pgqueue.TaskID) error {
	t, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	found, err := c.Attempts(ctx, id)
	if err != nil {
		return err
	}
	attempts := make([]attemptOut, len(found))
	for i, f := range found {
		attempts[i] = attemptOut{f.Attempt, f.LeaseNumber, string(f.Outcome), f.Worker, f.StartedAt, f.FinishedAt, f.Error, f.ErrorTrace}
	}
	if a.json {
		return a.printJSON(taskOut{
			t.Namespace, t.ID, t.Name, t.Queue, t.Status, t.Priority, t.Attempt, t.MaxAttempts, t.RunAfter, t.CreatedAt, t.StartedAt,
			t.FinishedAt, t.CancelRequestedAt, t.LeaseNumber, t.Worker, t.ActiveKey, t.Payload, t.Metadata, t.ResourceKeys, t.Policy,
			t.Result, t.Progress, attempts,
		})
	}
	a.printTask(t)
	for _, at := range attempts {
		a.printAttempt(at)
	}
	return nil
}

func (a *app) printTask(t *pgqueue.TaskInfo) {
	line := func(name, format string, args ...any) {
		a.printf("%-13s %s\n", name, indent(fmt.Sprintf(format, args...), 14))
	}
	moment := func(name string, at *time.Time) {
		if at != nil {
			line(name, "%s", when(*at))
		}
	}
	document := func(name string, text json.RawMessage) {
		if text != nil {
			line(name, "%s", pretty(text))
		}
	}
	line("id", "%s", t.ID)
	line("task", "%s", t.Name)
	line("queue", "%s", t.Queue)
	if t.Namespace != "default" {
		line("namespace", "%s", t.Namespace)
	}
	status := string(t.Status)
	if t.Status == pgqueue.Ready && time.Until(t.RunAfter) > 0 {
		status += ", due " + when(t.RunAfter)
	}
	line("status", "%s", status)
	line("attempts", "%d of %d", t.Attempt, t.MaxAttempts)
	if t.Priority != 0 {
		line("priority", "%d", t.Priority)
	}
	if t.ActiveKey != nil {
		line("active key", "%s", *t.ActiveKey)
	}
	moment("created", &t.CreatedAt)
	moment("started", t.StartedAt)
	moment("finished", t.FinishedAt)
	moment("to be stopped", t.CancelRequestedAt)
	if t.Worker != nil && t.Status == pgqueue.Running {
		line("worker", "%s", *t.Worker)
	}
	if len(t.ResourceKeys) > 0 {
		line("resources", "%s", strings.Join(t.ResourceKeys, ", "))
	}
	document("payload", t.Payload)
	document("metadata", t.Metadata)
	document("policy (ms)", t.Policy)
	document("progress", t.Progress)
	document("result", t.Result)
}

func (a *app) printAttempt(at attemptOut) {
	a.printf("\nattempt %d    %s %s\n", at.Attempt, at.Outcome, when(at.FinishedAt))
	if at.StartedAt != nil {
		a.printf("  took %s", age(at.FinishedAt.Sub(*at.StartedAt)))
		if at.Worker != nil {
			a.printf(" on %s", *at.Worker)
		}
		a.printf("\n")
	}
	for _, text := range []*string{at.Error, at.ErrorTrace} {
		if text != nil {
			a.printf("  %s\n", indent(printable(*text), 2))
		}
	}
}

// pretty lays out JSON that does not fit into a line.
func pretty(text json.RawMessage) string {
	const short = 80
	if len(text) <= short {
		return string(text)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}

func indent(text string, columns int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", columns))
}

// printable keeps what a stranger's text could do to the terminal from it.
func printable(text string) string {
	return controls.ReplaceAllString(escapes.ReplaceAllString(text, ""), "")
}
