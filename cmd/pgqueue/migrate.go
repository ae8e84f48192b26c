package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/sql"
)

func newMigrateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Install the schema, or bring it up to date",
		Long: `Installs schema pgqueue with its tables and functions, or brings it to the
version of this program. It is safe to run again, and from many machines at once.
A database that is newer than this program is left alone.

It needs a direct connection, not one through a transaction pooler, and
PostgreSQL 14 or newer.`,
		Example: `  pgqueue migrate --database-url postgres://owner@localhost/mydb`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withURL(cmd.Context(), false, func(url string) error {
				return withConn(cmd.Context(), url, func(conn *pgx.Conn) error { return a.migrate(cmd.Context(), conn) })
			})
		},
	}
}

func (a *app) migrate(ctx context.Context, conn *pgx.Conn) error {
	own, err := sql.Version()
	if err != nil {
		return err
	}
	before, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if err := sql.Migrate(ctx, conn); err != nil {
		return err
	}
	after, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	switch {
	case a.json:
		return a.printJSON(map[string]int{"before": before, "after": after, "program": own})
	case after > own:
		a.printf("schema version %d, newer than this program's (%d): left alone\n", after, own)
	case before == after:
		a.printf("schema version %d: up to date\n", after)
	case before == 0:
		a.printf("schema installed: version %d\n", after)
	default:
		a.printf("schema version %d -> %d\n", before, after)
	}
	return nil
}

// schemaVersion is 0 for a database without the schema.
func schemaVersion(ctx context.Context, conn *pgx.Conn) (int, error) {
	version, err := gen.SchemaVersion(ctx, conn)
	var server *pgconn.PgError
	if errors.As(err, &server) && (server.Code == "3F000" || server.Code == "42883") { // no schema, no function
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

func newSQLCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL that installs the schema",
		Long: `Prints everything that an installation into a database without the schema runs,
for DBAs who install with psql. It needs no database. Run it in one transaction;
it stops with an error where schema pgqueue exists.`,
		Example: `  pgqueue sql | psql -X -1 -v ON_ERROR_STOP=1 mydb`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			script, err := sql.Script()
			if err != nil {
				return err
			}
			if a.json {
				version, err := sql.Version()
				if err != nil {
					return err
				}
				return a.printJSON(map[string]any{"version": version, "sql": script})
			}
			a.printf("%s", script)
			return nil
		},
	}
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: `  pgqueue version --json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				program = info.Main.Version
			}
			schema, err := sql.Version()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"version": program, "schema": schema, "go": runtime.Version()})
			}
			a.printf("pgqueue %s, schema version %d, %s\n", program, schema, runtime.Version())
			return nil
		},
	}
}
