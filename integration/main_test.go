// Package integration_test shows the guarantees of the queue against a real PostgreSQL server. A guarantee's number stands in
// the name of its test or in the comment over it.
package integration_test

import (
	"testing"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/sql"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{Migrate: sql.Migrate}) }
