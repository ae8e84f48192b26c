package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

// app is what all commands share.
type app struct {
	in     io.Reader
	out    *output
	errOut io.Writer

	databaseURL string
	namespace   string
	logLevel    string
	json        bool

	log *slog.Logger
	// checked tells that cobra has found the arguments right.
	checked bool
}

const (
	groupSetup  = "setup"
	groupTasks  = "tasks"
	groupRepair = "repair"
	groupCare   = "care"
)

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "pgqueue",
		Short: "A task queue that lives inside PostgreSQL",
		Long: `pgqueue is a task queue that lives inside PostgreSQL. The database itself decides
at enqueue time whether a task already exists.

The commands work on the database of --database-url, else of the environment
variable DATABASE_URL. Without either they use an embedded development server:
the PostgreSQL programs of this machine, with data in your cache folder
(PGQUEUE_DEV_DIR moves it). It is started on demand and stops with its last user.

Exit codes: 0 fine, 1 something failed, 2 wrong usage.`,
		Example: `  # Try it, without a database:
  pgqueue enqueue hello --payload '{"name":"you"}'
  pgqueue work --exec 'cat; echo' --drain

  # With your own database:
  export DATABASE_URL=postgres://me@localhost/mydb
  pgqueue migrate
  pgqueue enqueue send_invoice --payload '{"order":42}' --active-key order:42
  pgqueue stats`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	flags := root.PersistentFlags()
	flags.StringVar(&a.databaseURL, "database-url", "", "the `URL` of the database (default: $DATABASE_URL, else the development server)")
	flags.StringVar(&a.namespace, "namespace", "default", "the `namespace` to work in")
	flags.BoolVar(&a.json, "json", false, "write JSON for programs, one value per line, errors too")
	flags.StringVar(&a.logLevel, "log-level", "info", "what to log on stderr, this `level` and above: debug, info, warn or error")

	root.AddGroup(
		&cobra.Group{ID: groupTasks, Title: "Produce and work:"},
		&cobra.Group{ID: groupRepair, Title: "Look and repair:"},
		&cobra.Group{ID: groupSetup, Title: "Set up and try:"},
		&cobra.Group{ID: groupCare, Title: "Maintain:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupTasks, newEnqueueCommand(a), newWorkCommand(a))
	add(groupRepair, newStatsCommand(a), newTaskCommand(a), newRetryCommand(a), newDiscardCommand(a), newCancelCommand(a))
	add(groupSetup, newDemoCommand(), newMigrateCommand(a), newSQLCommand(a), newDevCommand(a), newVersionCommand(a))
	add(groupCare, newPruneCommand(a), newReapCommand(a), newHammerCommand())
	return root
}

// prepare runs when cobra has found the arguments right.
func (a *app) prepare() error {
	var level slog.Level
	switch a.logLevel {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
			return usagef("--log-level: %v", err)
		}
	default:
		return usagef("--log-level is %q, it must be debug, info, warn or error", a.logLevel)
	}
	if a.namespace == "" {
		return usagef("--namespace is empty")
	}
	options := &slog.HandlerOptions{Level: level}
	if a.json {
		a.log = slog.New(slog.NewJSONHandler(a.errOut, options))
	} else {
		a.log = slog.New(slog.NewTextHandler(a.errOut, options))
	}
	a.checked = true
	return nil
}

// usageError is a mistake in the call, as opposed to a failure of what was asked for.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }
