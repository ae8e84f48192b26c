// Package mutation breaks the queue's functions on purpose, one small slip at a time, to see that the tests notice. The slips are
// made in the test databases only: nothing here touches a file.
package mutation

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Env names the mutation that a test binary applies to its databases.
const Env = "PGQUEUE_TEST_MUTATION"

// Edit replaces a fragment in the definition of a function, as pg_get_functiondef gives it.
type Edit struct {
	Function string
	Old, New string
}

// Mutation is one slip.
type Mutation struct {
	Name  string
	Edits []Edit
	// Tests that should notice, as a pattern for go test -run.
	Tests string
}

// FromEnv applies the mutation that the environment names, if any.
func FromEnv(ctx context.Context, conn *pgx.Conn) error {
	name := os.Getenv(Env)
	if name == "" {
		return nil
	}
	for _, m := range All {
		if m.Name == name {
			return m.apply(ctx, conn)
		}
	}
	return fmt.Errorf("%s: there is no mutation %q", Env, name)
}

// ApplyError tells that a mutation does not fit the functions any more.
const ApplyError = "mutation not applied"

func (m Mutation) apply(ctx context.Context, conn *pgx.Conn) error {
	definitions := map[string]string{}
	for _, edit := range m.Edits {
		text, read := definitions[edit.Function]
		if !read {
			err := conn.QueryRow(ctx, "select pg_get_functiondef(('pgqueue.' || $1)::regproc)", edit.Function).Scan(&text)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", ApplyError, m.Name, err)
			}
		}
		if n := strings.Count(text, edit.Old); n != 1 {
			return fmt.Errorf("%s: %s: function %s has %q %d times, want once", ApplyError, m.Name, edit.Function, edit.Old, n)
		}
		definitions[edit.Function] = strings.Replace(text, edit.Old, edit.New, 1)
	}
	for _, text := range definitions {
		if _, err := conn.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %s: %w", ApplyError, m.Name, err)
		}
	}
	return nil
}
