package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newEnqueueCommand(a *app) *cobra.Command {
	var given request
	var file string
	var failFast bool
	cmd := &cobra.Command{
		Use:   "enqueue [TASK]",
		Short: "Enqueue a task, or one for each line of a file",
		Long: `Enqueues a task and prints CREATED and its id, or REUSED, the id of the task that
exists already, by which key (ACTIVE, WINDOW or BOTH), and that task's state.

--active-key and --unique hold while a task waits or runs; --window-key with
--window holds for a time, also after its task has ended, and stands for one
request: the same key with another request is a conflict.

With --ndjson, each line of the file (- is stdin) is a JSON object:

  {"task":"mail","payload":{"to":"a@b.c"},"active_key":"a@b.c","delay":"10m"}

Its members are named as the flags, with _ for -, and also lease and
resource_keys. TASK and the flags are defaults for all lines. Lines are enqueued
in their order, each in a transaction of its own, and each has one line of
output: CREATED ID, REUSED ID MATCH STATUS, CONFLICT ID line N: MESSAGE, or
ERROR line N: MESSAGE. Empty lines count but are passed over. All lines are
tried; the exit code is 1 if one failed.`,
		Example: `  pgqueue enqueue send_invoice --payload '{"order":42}' --active-key order:42
  pgqueue enqueue report --unique --delay 10m --priority 5
  pgqueue enqueue charge --payload - --window-key "$REQUEST_ID" --window 24h < body.json
  pgqueue enqueue --ndjson tasks.ndjson --unique --queue import`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("give one TASK; %q is one too many", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if !utf8.ValidString(args[0]) || args[0] == "" {
					return usagef("TASK must be a name in UTF-8")
				}
				given.task = &args[0]
			}
			if string(given.payload) == "-" {
				if file == "-" {
					return usagef("--payload - and --ndjson - cannot both read stdin")
				}
				payload, err := io.ReadAll(a.in)
				if err != nil {
					return fmt.Errorf("read stdin: %w", err)
				}
				given.payload = payload
			}
			for name, value := range map[string]json.RawMessage{"--payload": given.payload, "--metadata": given.metadata} {
				if value != nil && !json.Valid(value) {
					return usagef("%s: %v", name, syntaxError(value))
				}
			}
			if file == "" && cmd.Flags().Changed("ndjson") {
				return usagef("--ndjson needs the name of a file, or -")
			}
			if file != "" {
				return a.enqueueLines(cmd.Context(), file, given, failFast)
			}
			if given.task == nil {
				return usagef("give a TASK, or --ndjson with a file of tasks")
			}
			if failFast {
				return usagef("--fail-fast goes with --ndjson")
			}
			r, err := given.build()
			if err != nil {
				name, rule, _ := strings.Cut(err.Error(), ":")
				return usagef("--%s:%s", strings.ReplaceAll(name, "_", "-"), rule)
			}
			return a.enqueueOne(cmd.Context(), r)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, m := range members {
		if m.usage == "" {
			continue
		}
		f := flags.VarPF(&memberFlag{member: m, request: &given}, m.flag(), "", m.usage)
		if m.kind == kindBool {
			f.NoOptDefVal = "true"
		}
	}
	flags.StringVar(&file, "ndjson", "", "enqueue a task for each line of this `file`, or of stdin (-)")
	flags.BoolVar(&failFast, "fail-fast", false, "with --ndjson, stop at the first line that fails")
	return cmd
}

// memberFlag is a flag that sets a member of a request.
type memberFlag struct {
	member  member
	request *request
	text    string
}

var _ pflag.Value = (*memberFlag)(nil)

func (f *memberFlag) String() string { return f.text }

func (f *memberFlag) Type() string {
	if f.member.kind == kindBool {
		return "bool"
	}
	return f.member.kind
}

func (f *memberFlag) Set(text string) error {
	f.text = text
	if !utf8.ValidString(text) {
		return errors.New("it is not valid UTF-8")
	}
	value := json.RawMessage(text)
	switch f.member.kind {
	case kindText, kindSpan, kindTime:
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		value = quoted
	case kindInt, kindBool:
		if text == "null" {
			value = json.RawMessage(`""`)
		}
	}
	return f.member.set(f.request, value)
}

// enqueued is the answer to an enqueue as JSON.
type enqueued struct {
	Line        int                    `json:"line,omitempty"`
	Disposition pgqueue.Disposition    `json:"disposition,omitempty"`
	TaskID      *pgqueue.TaskID        `json:"task_id,omitempty"`
	Match       pgqueue.DuplicateMatch `json:"match,omitempty"`
	PolicyDrift bool                   `json:"policy_drift,omitempty"`
	Status      pgqueue.TaskStatus     `json:"status,omitempty"`
	Queue       string                 `json:"queue,omitempty"`
	RunAfter    *time.Time             `json:"run_after,omitempty"`
	Error       *problem               `json:"error,omitempty"`
	// Of a conflict: the task that the window key stands for, and the one that holds the active key.
	ConflictID *pgqueue.TaskID `json:"conflict_id,omitempty"`
	HolderID   *pgqueue.TaskID `json:"holder_id,omitempty"`
}

func (a *app) enqueueOne(ctx context.Context, r pgqueue.Request) error {
	return a.withClient(ctx, func(c *pgqueue.Client) error {
		receipt, err := enqueue(ctx, c, r)
		if err != nil {
			return err
		}
		return a.printReceipt(0, receipt)
	})
}

// enqueue tries again after a lost race, unless the caller would rather know.
func enqueue(ctx context.Context, c *pgqueue.Client, r pgqueue.Request) (pgqueue.Receipt, error) {
	const tries = 10
	for try := 1; ; try++ {
		receipt, err := c.Enqueue(ctx, r)
		if !errors.Is(err, pgqueue.ErrRace) || r.NoWait || try == tries {
			return receipt, err
		}
		select {
		case <-ctx.Done():
			return receipt, ctx.Err()
		case <-time.After(time.Duration(try) * 10 * time.Millisecond):
		}
	}
}

func (a *app) printReceipt(line int, r pgqueue.Receipt) error {
	if a.json {
		out := enqueued{
			Line: line, Disposition: r.Disposition, TaskID: &r.TaskID, Match: r.DuplicateMatch, PolicyDrift: r.PolicyDrift,
			Status: r.Status, Queue: r.Queue,
		}
		if !r.RunAfter.IsZero() {
			out.RunAfter = &r.RunAfter
		}
		return a.printJSON(out)
	}
	if r.Created() {
		a.printf("CREATED %s\n", r.TaskID)
		return nil
	}
	status := string(r.Status)
	if status == "" {
		status = "PRUNED"
	}
	if r.PolicyDrift {
		status += " POLICY_DRIFT"
	}
	a.printf("REUSED %s %s %s\n", r.TaskID, r.DuplicateMatch, status)
	return nil
}
