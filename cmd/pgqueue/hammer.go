package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/hammer"
)

func newHammerCommand() *cobra.Command {
	o := hammer.Options{Out: os.Stdout, Log: os.Stderr}
	length := duration(30 * time.Second)
	cmd := &cobra.Command{
		Use:   "hammer",
		Short: "Beat on the queue and check its promises",
		Long: `Beats on the queue and checks what it promises of uniqueness.

Many sessions enqueue few keys at the same time, while workers complete and discard
the tasks. Every call must answer with one task, no two tasks of one key may be
pending at once, and the answers must agree with each other and with the database.

With --batches the sessions enqueue batches of all keys, every other one in the
opposite order, with active keys, with window keys and of a declared type: no two
batches may deadlock each other.

It starts a throwaway PostgreSQL. With --database-url, or DATABASE_URL in the
environment, it uses that database, which must be migrated, in a namespace of its
own, which it empties in the end. Exit code 1 when a promise was broken.`,
		Example: `  pgqueue hammer --sessions 16 --keys 10 --workers 4 --duration 30s
  pgqueue hammer --batches --sessions 8 --rounds 1000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("namespace") {
				return usagef("the hammer takes a namespace of its own")
			}
			if o.Batches && cmd.Flags().Changed("duration") || !o.Batches && cmd.Flags().Changed("rounds") {
				return usagef("--duration is for calls one by one, --rounds for --batches")
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
			o.Duration = time.Duration(length)
			return hammer.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Sessions, "sessions", 16, "how many sessions enqueue at once")
	f.IntVar(&o.Keys, "keys", 10, "how many keys they share")
	f.IntVar(&o.Workers, "workers", 4, "how many workers settle the tasks")
	f.Var(&length, "duration", "how long to enqueue one by one")
	f.BoolVar(&o.Batches, "batches", false, "enqueue batches in opposite orders")
	f.IntVar(&o.Rounds, "rounds", 1000, "how many batches each session enqueues")
	f.BoolVar(&o.FailFast, "fail-fast", false, "stop at the first broken promise")
	return cmd
}
