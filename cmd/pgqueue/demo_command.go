package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/demo"
)

func newDemoCommand() *cobra.Command {
	o := demo.Options{Out: os.Stdout, Log: os.Stderr}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the queue at work on a real file",
		Long: `Show the queue at work on a real file.

The demo starts a throwaway PostgreSQL, which goes with it, and delivers the lines
of a file through active and window keys, with several producers at once and some
lines more than once. Several worker processes do the work; one of them is killed on
the way. In the end it compares the receipts with the database, and exits 0 only if
everything adds up.

The file is the machine's package log (dpkg, pacman or dnf) where there is one, else
a file of webhook deliveries that comes with the program. --file names another one,
with one JSON object per line: one member of the object makes the active key and
another one the window key; dots lead into inner objects ("data.object.id"). A line
that has neither is unique by its whole content.

With --database-url, or DATABASE_URL in the environment, the demo uses that database,
which must be migrated, in a namespace of its own. With --json the summary goes to
standard output as JSON, and all else to standard error.`,
		Example: `  pgqueue demo
  pgqueue demo --file events.ndjson --active-key-field order.id --window-key-field event_id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("namespace") {
				return usagef("the demo takes a namespace of its own")
			}
			var err error
			if o.DatabaseURL, err = cmd.Flags().GetString("database-url"); err != nil {
				return err
			}
			if o.DatabaseURL == "" {
				o.DatabaseURL = os.Getenv("DATABASE_URL")
			}
			if o.JSON, err = cmd.Flags().GetBool("json"); err != nil {
				return err
			}
			// The terminal that closes must not leave a server behind either.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return demo.Run(ctx, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.File, "file", "", "deliver the JSON objects of this file, one per line")
	f.StringVar(&o.ActiveKeyField, "active-key-field", demo.DefaultActiveKeyField, "member of a line of --file that is its active key")
	f.StringVar(&o.WindowKeyField, "window-key-field", demo.DefaultWindowKeyField, "member of a line of --file that is its window key")
	f.IntVar(&o.Limit, "limit", 5000, "read at most this many lines, of a package log the last ones; 0 for all")
	f.IntVar(&o.Producers, "producers", 4, "how many producers deliver at once")
	f.IntVar(&o.Workers, "workers", 3, "how many worker processes there are; one of them is killed")
	f.IntVar(&o.Redeliver, "redeliver", -1, "percent of the lines that the demo delivers again; -1: 10 of a package log, none of NDJSON")
	f.DurationVar(&o.Spread, "spread", 0, "spread the deliveries over this time; 0: 4 to 10 s, by their number")
	cmd.AddCommand(newDemoWorkerCommand())
	return cmd
}

// newDemoWorkerCommand is what the demo starts its workers with.
func newDemoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "A worker process of the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunWorker(cmd.Context(), cmd.InOrStdin())
		},
	}
}
