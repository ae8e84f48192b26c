package interleave

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/integration/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{}) }

var setup = []string{
	"create table public.t (id int primary key, note text)",
	"insert into public.t values (10, 'ten'), (20, null)",
}

// race is two sessions that insert the same key.
func race(orders ...Order) Spec {
	return Spec{
		Setup: setup,
		Sessions: []Session{
			{Name: "a", Setup: []string{"begin"}, Steps: []Step{
				{Name: "a insert", SQL: "insert into public.t values ($1) returning id", Args: []any{1}},
				{Name: "a commit", SQL: "commit"},
				{Name: "a rollback", SQL: "rollback"},
			}},
			{Name: "b", Setup: []string{"begin"}, Steps: []Step{
				{Name: "b look", SQL: "select count(*) from public.t where id = 1"},
				{Name: "b insert", SQL: "insert into public.t values (1) on conflict do nothing"},
				{Name: "b commit", SQL: "commit"},
			}},
		},
		Orders: orders,
	}
}

func TestUniqueRace(t *testing.T) {
	t.Parallel()
	serializationFailure := map[Isolation]string{RepeatableRead: "40001", Serializable: "40001"}
	spec := race(
		Order{Steps: []At{
			{Step: "b look", Rows: []string{"0"}},
			{Step: "a insert", Rows: []string{"1"}, Tag: "INSERT 0 1"},
			{Step: "b insert", Blocks: true, Tag: "INSERT 0 0", ErrorAt: serializationFailure},
			{Step: "a commit", Unblocks: []string{"b insert"}},
			{Step: "b commit"},
		}},
		Order{Name: "rollback lets b win", Steps: []At{
			{Step: "a insert"},
			{Step: "b insert", Blocks: true, Tag: "INSERT 0 1"},
			{Step: "a rollback", Unblocks: []string{"b insert"}},
			{Step: "b commit"},
		}, After: func(t testing.TB, state *State) {
			if tag := state.Results["b insert"].Tag; tag != "INSERT 0 1" {
				t.Error(tag)
			}
		}},
		Order{Name: "snapshot", Steps: []At{
			{Step: "b look", Rows: []string{"0"}},
			{Step: "a insert"},
			{Step: "a commit"},
			{Step: "b insert", Tag: "INSERT 0 0", ErrorAt: serializationFailure},
		}},
		Order{Name: "one after the other", Steps: []At{
			{Step: "a insert"}, {Step: "a commit"},
			{Step: "b look", Rows: []string{"1"}, RowsAt: map[Isolation][]string{Serializable: {"1"}}}, {Step: "b commit"},
		}},
	)
	spec.Isolations = AllLevels
	spec.After = func(t testing.TB, state *State) {
		var count int
		err := state.Conn.QueryRow(context.Background(), "select count(*) from public.t where id = 1").Scan(&count)
		if err != nil || count != 1 {
			t.Errorf("%d rows, %v", count, err)
		}
	}
	Run(t, spec)
}

func TestPlainInsertAndOwnLevel(t *testing.T) {
	t.Parallel()
	Run(t, Spec{
		Setup: setup,
		Sessions: []Session{
			{Name: "a", Isolation: Serializable, Setup: []string{"begin"}, Steps: []Step{
				{Name: "a level", SQL: "show transaction_isolation"},
				{Name: "a lock", SQL: "select id, note from public.t order by id for update"},
				{Name: "a commit", SQL: "commit"},
			}},
			{Name: "b", Steps: []Step{{Name: "b update", SQL: "update public.t set note = 'b' where id = 10"}}},
			{Name: "c", Steps: []Step{
				{Name: "c update", SQL: "update public.t set note = 'c' where id = 20"},
				{Name: "c fails", Do: func(ctx context.Context, conn *pgx.Conn) error {
					_, err := conn.Exec(ctx, "insert into public.t values (10)")
					return fmt.Errorf("wrapped: %w", err)
				}},
			}},
			{Name: "d", Settings: map[string]string{"lock_timeout": "100ms"}, Steps: []Step{
				{Name: "d times out", SQL: "delete from public.t where id = 20"},
			}},
		},
		Orders: []Order{{Steps: []At{
			{Step: "a level", Rows: []string{"serializable"}},
			{Step: "a lock", Rows: []string{"10|ten", "20|NULL"}},
			{Step: "b update", Blocks: true, Tag: "UPDATE 1"},
			{Step: "c update", Blocks: true},
			{Step: "d times out", Error: "55P03"},
			{Step: "a commit", Unblocks: []string{"c update", "b update"}},
			{Step: "c fails", Error: "23505"},
		}}},
	})
}

func TestDeadlock(t *testing.T) {
	t.Parallel()
	session := func(name string, timeout string, first, second int) Session {
		update := "update public.t set note = 'x' where id = "
		return Session{
			Name: name, Setup: []string{"begin"}, Settings: map[string]string{"deadlock_timeout": timeout},
			Steps: []Step{
				{Name: name + " first", SQL: update + fmt.Sprint(first)},
				{Name: name + " second", SQL: update + fmt.Sprint(second)},
				{Name: name + " end", SQL: "commit"},
			},
		}
	}
	// Whose deadlock_timeout ends first is the victim.
	Run(t, Spec{
		Setup:    setup,
		Sessions: []Session{session("a", "60s", 10, 20), session("b", "50ms", 20, 10)},
		Orders: []Order{{Steps: []At{
			{Step: "a first"}, {Step: "b first"},
			{Step: "a second", Blocks: true},
			{Step: "b second", Error: "40P01", Unblocks: []string{"a second"}},
			{Step: "a end"}, {Step: "b end"},
		}}},
	})
}

// fakeTB records failures instead of failing.
type fakeTB struct {
	testing.TB
	messages []string
}

func (f *fakeTB) Helper()  {}
func (f *fakeTB) FailNow() { runtime.Goexit() }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}
func (f *fakeTB) Fatalf(format string, args ...any) { f.Errorf(format, args...); f.FailNow() }

func TestDifferencesAreReported(t *testing.T) {
	t.Parallel()
	blocked := []At{{Step: "a insert"}, {Step: "b insert", Blocks: true}}
	for name, test := range map[string]struct {
		steps []At
		want  []string
	}{
		"blocks and should not": {
			[]At{{Step: "a insert"}, {Step: "b insert", Patience: 100 * time.Millisecond}},
			[]string{"step b insert blocks and should not", "activity:", " a, idle in transaction", " b, active, waits for Lock/transactionid, blocked by {"},
		},
		"should block": {
			[]At{{Step: "b look", Blocks: true}}, []string{"step b look ended instead of being blocked", `rows ["0"]`},
		},
		"freed by surprise": {
			append(blocked[:2:2], At{Step: "a commit"}), []string{"step b insert ended instead of being blocked"},
		},
		"wrong rows":   {[]At{{Step: "b look", Rows: []string{"7"}}}, []string{`want rows ["7"]`}},
		"no rows":      {[]At{{Step: "b look", Rows: []string{}}}, []string{`want rows []`}},
		"wrong tag":    {[]At{{Step: "a insert", Tag: "INSERT 0 2"}}, []string{`want tag "INSERT 0 2"`}},
		"no error":     {[]At{{Step: "a insert", Error: "23505"}}, []string{`want SQLSTATE "23505"`}},
		"late results": {append(blocked[:2:2], At{Step: "a rollback", Unblocks: []string{"b insert"}}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order := Order{Steps: test.steps}
			fake := &fakeTB{TB: t}
			done := make(chan struct{})
			go func() { // Fatalf ends the goroutine
				defer close(done)
				RunOrder(fake, race(order), order, ReadCommitted)
			}()
			<-done
			text := strings.Join(fake.messages, "\n")
			if test.want == nil && text != "" {
				t.Error(text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("the message lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

func TestStepThatGoesAway(t *testing.T) {
	t.Parallel()
	spec := Spec{Sessions: []Session{{Name: "a", Steps: []Step{
		{Name: "error", Do: func(context.Context, *pgx.Conn) error { return errors.New("plain") }},
		{Name: "exit", Do: func(context.Context, *pgx.Conn) error { runtime.Goexit(); return nil }},
	}}}}
	for step, want := range map[string]string{"error": "plain", "exit": "ended without returning"} {
		fake := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			RunOrder(fake, spec, Order{Steps: []At{{Step: step}}}, Default)
		}()
		<-done
		if text := strings.Join(fake.messages, "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: %q", step, text)
		}
	}
}

func TestMistakesInTheData(t *testing.T) {
	t.Parallel()
	for want, steps := range map[string][]At{
		`no step is named "x"`:                           {{Step: "x"}},
		"step a insert comes twice":                      {{Step: "a insert"}, {Step: "a insert"}},
		"comes while its session is blocked in b insert": {{Step: "b insert", Blocks: true}, {Step: "b commit"}},
		`unblocks "b look", which is not blocked there`:  {{Step: "a insert", Unblocks: []string{"b look"}}},
		"nothing unblocks step b insert":                 {{Step: "a insert"}, {Step: "b insert", Blocks: true}},
	} {
		if err := race(Order{Steps: steps}).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	for want, spec := range map[string]Spec{
		"no orders":            {},
		"empty or not unique":  {Sessions: []Session{{Steps: []Step{{Name: "a", SQL: "x"}, {Name: "a", SQL: "x"}}}}},
		"needs either SQL or ": {Sessions: []Session{{Steps: []Step{{Name: "a"}}}}},
	} {
		if err := spec.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
