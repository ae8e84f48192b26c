// Package pgtest gives every test a PostgreSQL database of its own.
//
// One server serves a test binary. It is started at the first use and chosen in this order:
//
//   - PGQUEUE_TEST_DATABASE_URL: a server that runs already (its role must be allowed to create databases);
//   - PGQUEUE_TEST_IMAGE: a container of that image; without the variable a container of postgres:17, if a docker
//     daemon answers at once and can start it;
//   - the PostgreSQL programs of this machine.
//
// With none of them the tests fail and say what to install.
//
// The databases are clones of a template that Options.Migrate prepares once. More variables run the same tests in
// other surroundings: PGQUEUE_TEST_ISOLATION becomes default_transaction_isolation of every database,
// PGQUEUE_TEST_EXEC_MODE becomes pgx's default_query_exec_mode of all pools and connections made here, and
// PGQUEUE_TEST_POOLER_URL names a transaction pooler before the server of PGQUEUE_TEST_DATABASE_URL, through which all
// pools go. It must set search_path = ” and statement_timeout = '20s' on its connections.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The variables of the environment that pgtest reads.
const (
	DatabaseURLEnv = "PGQUEUE_TEST_DATABASE_URL"
	ImageEnv       = "PGQUEUE_TEST_IMAGE"
	IsolationEnv   = "PGQUEUE_TEST_ISOLATION"
	ExecModeEnv    = "PGQUEUE_TEST_EXEC_MODE"
	PoolerURLEnv   = "PGQUEUE_TEST_POOLER_URL"
)

const (
	startTimeout = 3 * time.Minute // a container's image may have to be pulled
	stopTimeout  = 30 * time.Second
)

// Options belong to a test binary.
type Options struct {
	// Migrate prepares the template database. Nil leaves it empty. Settings made with ALTER DATABASE do not reach the
	// clones; see WithSetting.
	Migrate func(ctx context.Context, conn *pgx.Conn) error
	// Settings of the server, on top of those for tests. A server given by URL keeps its own.
	Settings map[string]string
	// After runs when the tests are over and the server is gone; an error fails the run. A place for goleak.Find.
	After func() error
}

// Main runs the tests of a package and exits:
//
//	func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{Migrate: migrate}) }
func Main(m *testing.M, options Options) {
	os.Exit(run(m.Run, options))
}

func run(tests func() int, options Options) int {
	current.configure(options)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-over:
		case received := <-interrupted:
			signal.Stop(interrupted) // a second one ends the process at once
			fmt.Fprintf(os.Stderr, "pgtest: %s: stopping the server\n", received)
			report(current.abandon())
			os.Exit(1)
		}
	}()
	code := tests()
	signal.Stop(interrupted)
	close(over)
	<-watched
	err := current.stop()
	if options.After != nil {
		err = errors.Join(err, options.After())
	}
	if report(err) && code == 0 {
		code = 1
	}
	return code
}

func report(err error) bool {
	if err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
	}
	return err != nil
}

// Log returns the server's log up to now. It fails the test for a server given by URL: its log is out of reach.
func Log(t testing.TB) string {
	t.Helper()
	h := use(t)
	text, err := h.server.log(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatalf("pgtest: server log: %v", err)
	}
	return text
}

// ServerKind tells what serves the tests: "url", "container" or "programs".
func ServerKind(t testing.TB) string {
	t.Helper()
	return use(t).server.kind
}

// use returns the running server, started by the first test that asks.
func use(t testing.TB) *harness {
	t.Helper()
	if err := current.start(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return &current
}
