// Package integration_test shows the guarantees of the queue against a real PostgreSQL server. A guarantee's number stands in
// the name of its test or in the comment over it.
package integration_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/integration/mutation"
	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/sql"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{Migrate: migrate, After: noGoroutineLeft}) }

func migrate(ctx context.Context, conn *pgx.Conn) error {
	if err := sql.Migrate(ctx, conn); err != nil {
		return err
	}
	return mutation.FromEnv(ctx, conn)
}

// noGoroutineLeft looks when all tests are over: no goroutine outlives Worker.Run, or a client whose pool is closed.
func noGoroutineLeft() error { return goleak.Find() }
