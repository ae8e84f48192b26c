// Package interleave runs the steps of several database sessions in given orders, in the way of PostgreSQL's own
// isolation tester. An order says which step must block and which later step frees it. Blocking is read from the
// server's lock table, never guessed from time: a test passes as fast as the server allows.
//
//	interleave.Run(t, interleave.Spec{
//		Setup:    []string{"create table public.t (id int primary key)"},
//		Sessions: []interleave.Session{
//			{Name: "a", Setup: []string{"begin"}, Steps: []interleave.Step{
//				{Name: "a insert", SQL: "insert into public.t values (1)"}, {Name: "a commit", SQL: "commit"}}},
//			{Name: "b", Steps: []interleave.Step{{Name: "b insert", SQL: "insert into public.t values (1)"}}},
//		},
//		Orders: []interleave.Order{{Steps: []interleave.At{
//			{Step: "a insert"},
//			{Step: "b insert", Blocks: true, Error: "23505"},
//			{Step: "a commit", Unblocks: []string{"b insert"}},
//		}}},
//	})
package interleave

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// Isolation is a transaction isolation level, as SQL writes it.
type Isolation string

// The levels. The empty one leaves the database's default.
const (
	Default        Isolation = ""
	ReadCommitted  Isolation = "read committed"
	RepeatableRead Isolation = "repeatable read"
	Serializable   Isolation = "serializable"
)

// AllLevels is for Spec.Isolations.
var AllLevels = []Isolation{ReadCommitted, RepeatableRead, Serializable}

// Spec is a set of sessions and the orders to run their steps in. Each order runs in a database of its own.
type Spec struct {
	// Setup runs once in each database, before the sessions exist.
	Setup []string
	// Sessions are real connections with an empty search_path.
	Sessions []Session
	// Orders to run; each is a subtest.
	Orders []Order
	// Isolations run all orders once for each level, which sessions without a level of their own take.
	Isolations []Isolation
	// Database tunes the databases.
	Database []pgtest.Option
	// After runs after the last step of every order, before the After of the order.
	After func(t testing.TB, state *State)
}

// Session is one connection and the steps it can do.
type Session struct {
	Name string
	// Isolation becomes default_transaction_isolation of the session.
	Isolation Isolation
	// Settings are set for the session, like deadlock_timeout.
	Settings map[string]string
	// Setup runs at the beginning, for example "begin".
	Setup []string
	Steps []Step
}

// Step is a statement, or a function for what needs more than one.
type Step struct {
	Name string // unique in the whole Spec
	SQL  string
	Args []any
	// Do runs instead of SQL. It gets the session's connection; an error's SQLSTATE counts like that of a statement.
	Do func(ctx context.Context, conn *pgx.Conn) error
}

// Order is one interleaving.
type Order struct {
	// Name of the subtest; empty takes the names of the steps.
	Name  string
	Steps []At
	// After runs when all steps are done.
	After func(t testing.TB, state *State)
}

// At is a step at its place in an order, with what must come of it there.
type At struct {
	Step string
	// Blocks means that the step must wait for a lock. A later place names it in Unblocks; its result is checked then.
	Blocks bool
	// Unblocks names the blocked steps that must end because of this one.
	Unblocks []string
	// Error is the SQLSTATE that the step must fail with; empty means success.
	Error string
	// ErrorAt replaces Error at some levels; an empty string there means success.
	ErrorAt map[Isolation]string
	// Rows are the rows that SQL must return, columns in text form with "|" between, NULL as "NULL". Nil checks nothing.
	Rows []string
	// RowsAt replaces Rows at some levels.
	RowsAt map[Isolation][]string
	// Tag is the command tag that SQL must end with, like "UPDATE 0". Empty checks nothing.
	Tag string
	// Patience bounds a wait for a lock that ends by itself, as by lock_timeout, in a step that is not meant to block.
	// Zero means 2 s.
	Patience time.Duration
}

// Result is what came of a step.
type Result struct {
	Rows     []string
	Tag      string
	Err      error
	SQLState string
}

// State is what After functions see.
type State struct {
	DB *pgtest.DB
	// Conn is a connection outside of the sessions.
	Conn *pgx.Conn
	// Isolation is the level of this run, Default when the Spec names none.
	Isolation Isolation
	// Results of the steps by name.
	Results map[string]Result
}

// Run runs all orders at all levels as parallel subtests.
func Run(t *testing.T, spec Spec) {
	t.Helper()
	if err := spec.check(); err != nil {
		t.Fatalf("interleave: %v", err)
	}
	levels := spec.Isolations
	if len(levels) == 0 {
		levels = []Isolation{Default}
	}
	for _, level := range levels {
		for _, order := range spec.Orders {
			name := order.name()
			if level != Default {
				name = string(level) + "/" + name
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				RunOrder(t, spec, order, level)
			})
		}
	}
}

func (o Order) name() string {
	if o.Name != "" {
		return o.Name
	}
	names := make([]string, len(o.Steps))
	for i, at := range o.Steps {
		names[i] = at.Step
	}
	return strings.Join(names, ", ")
}

// check finds mistakes in the data itself, which would otherwise look like the server's.
func (s Spec) check() error {
	known := map[string]string{}
	for _, session := range s.Sessions {
		for _, step := range session.Steps {
			if _, twice := known[step.Name]; twice || step.Name == "" {
				return fmt.Errorf("session %s: the step name %q is empty or not unique", session.Name, step.Name)
			}
			if (step.SQL == "") == (step.Do == nil) {
				return fmt.Errorf("step %s needs either SQL or Do", step.Name)
			}
			known[step.Name] = session.Name
		}
	}
	if len(s.Orders) == 0 {
		return errors.New("no orders")
	}
	for _, order := range s.Orders {
		if err := order.check(known); err != nil {
			return fmt.Errorf("order %s: %w", order.name(), err)
		}
	}
	return nil
}

func (o Order) check(sessionOf map[string]string) error {
	done, blocked := map[string]bool{}, map[string]string{} // blocked: session to step
	for _, at := range o.Steps {
		session, known := sessionOf[at.Step]
		switch {
		case !known:
			return fmt.Errorf("no step is named %q", at.Step)
		case done[at.Step]:
			return fmt.Errorf("step %s comes twice", at.Step)
		case blocked[session] != "":
			return fmt.Errorf("step %s comes while its session is blocked in %s", at.Step, blocked[session])
		}
		done[at.Step] = true
		if at.Blocks {
			blocked[session] = at.Step
		}
		for _, name := range at.Unblocks {
			if blocked[sessionOf[name]] != name || name == at.Step {
				return fmt.Errorf("step %s unblocks %q, which is not blocked there", at.Step, name)
			}
			delete(blocked, sessionOf[name])
		}
	}
	for _, name := range blocked {
		return fmt.Errorf("nothing unblocks step %s", name)
	}
	return nil
}
