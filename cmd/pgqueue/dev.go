package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
)

func newDevCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "dev",
		Short: "Keep the embedded development server up",
		Long: `Starts the embedded development server, installs the schema, and prints how to
reach it. The server stays up until Ctrl-C, or until the last command that uses
it ends. Its data stays.

It runs the PostgreSQL programs of this machine, on a private socket, as an
unprivileged user when you are root. PGBIN names the folder of the programs where
they are not found, PGQUEUE_DEV_DIR the folder of the data.`,
		Example: `  pgqueue dev
  PGQUEUE_DEV_DIR=./scratch pgqueue dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.databaseURL != "" {
				return usagef("--database-url has no meaning here: dev is about the embedded server")
			}
			return a.dev(cmd.Context())
		},
	}
}

func (a *app) dev(ctx context.Context) (err error) {
	programs, err := devserver.FindPrograms()
	if err != nil {
		return err
	}
	server, err := devserver.Open(ctx, devserver.Options{Programs: programs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := migrate(ctx, server.URL); err != nil {
		return err
	}
	psql := shellQuote(findPsql(programs)) + " " + shellQuote(server.URL)
	if a.json {
		err = a.printJSON(map[string]any{
			"url": server.URL, "psql": psql, "data_dir": server.DataDir, "log_file": server.LogFile, "pid": server.PID(),
		})
		if err != nil {
			return err
		}
	} else {
		a.printf("PostgreSQL %s is up, with data in %s\n\n", programs.Version, server.DataDir)
		a.printf("  export DATABASE_URL=%s\n  %s\n\n", shellQuote(server.URL), psql)
		a.printf("Its log is %s. Press Ctrl-C to stop.\n", server.LogFile)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if server.PID() == 0 {
				return fmt.Errorf("the server has ended; its log is %s", server.LogFile)
			}
		}
	}
}

// findPsql prefers the one of the server's own version.
func findPsql(programs devserver.Programs) string {
	path := programs.Path("psql")
	if _, err := os.Stat(path); err != nil {
		return "psql"
	}
	if inPath, err := exec.LookPath("psql"); err == nil && sameFile(inPath, path) {
		return "psql"
	}
	return path
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func shellQuote(text string) string {
	if !strings.ContainsAny(text, " \t\n'\"\\$&|;<>()*?[]#~=%!{}`") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
