package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var migrations atomic.Int32

func TestMain(m *testing.M) {
	Main(m, Options{
		Migrate: func(ctx context.Context, conn *pgx.Conn) error {
			migrations.Add(1)
			_, err := conn.Exec(ctx, `create schema app; create table app.thing (id int primary key, note text)`)
			return err
		},
		After: func() error {
			if current.server == nil || current.server.kind == kindURL {
				return nil
			}
			conn, err := pgx.Connect(context.Background(), current.server.url(""))
			if err == nil {
				return errors.Join(errors.New("the server still answers"), conn.Close(context.Background()))
			}
			return nil
		},
	})
}

func value[T any](t testing.TB, q Querier, sql string, args ...any) T {
	t.Helper()
	rows, err := q.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return found
}

func TestClonesAreSeparate(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			db := New(t)
			pool := db.Pool(t, MaxConns(3))
			if got := value[int](t, pool, "select count(*)::int from app.thing"); got != 0 {
				t.Errorf("%d rows of another test", got)
			}
			if _, err := pool.Exec(t.Context(), "insert into app.thing values (1)"); err != nil {
				t.Error(err)
			}
			if pool.Config().MaxConns != 3 {
				t.Error("MaxConns is not kept")
			}
			if got := value[string](t, pool, "select current_database()::text"); got != db.Name {
				t.Errorf("in database %s instead of %s", got, db.Name)
			}
		})
	}
	t.Cleanup(func() {
		if n := migrations.Load(); n != 1 {
			t.Errorf("migrated %d times", n)
		}
	})
}

func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		db := New(t)
		name = db.Name
		conn, err := pgx.Connect(context.Background(), db.URL()) // a session that the test forgot
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			if err := current.drop(context.Background(), db.Name); err != nil {
				t.Error(err)
			}
		})
	})
	if got := value[int](t, current.admin, "select count(*)::int from pg_database where datname = $1", name); got != 0 {
		t.Error("the database is still there")
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	conn := Empty(t).Conn(t)
	if got := value[*string](t, conn, "select to_regnamespace('app')::text"); got != nil {
		t.Error("the schema is in the empty database")
	}
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	db := New(t, WithIsolation("serializable"), WithSetting("pgqueue.made_up", `it's a \ test`))
	conn := db.Conn(t, RuntimeParam("application_name", "me"), ExecMode(pgx.QueryExecModeExec),
		Configure(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["work_mem"] = "5MB" }))
	for name, want := range map[string]string{
		"search_path": "", "default_transaction_isolation": "serializable", "pgqueue.made_up": `it's a \ test`,
		"application_name": "me", "work_mem": "5MB",
	} {
		if got := value[string](t, conn, "select current_setting($1)", name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeExec {
		t.Error("the exec mode is not kept")
	}
	if got := value[string](t, db.Pool(t), "show search_path"); got != "" {
		t.Errorf("the pool's search_path is %q", got)
	}
	other, err := pgx.Connect(t.Context(), db.URL("application_name", "a b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, other, "show application_name"); got != "a b" {
		t.Errorf("URL parameter: %q", got)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Not parallel: it sets the environment.
func TestEnvironment(t *testing.T) {
	t.Setenv(IsolationEnv, "repeatable read")
	t.Setenv(ExecModeEnv, "simple_protocol")
	conn := New(t).Conn(t)
	if got := value[string](t, conn, "show default_transaction_isolation"); got != "repeatable read" {
		t.Error(got)
	}
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		t.Error("the exec mode does not come from the environment")
	}
	if got := value[string](t, New(t, WithIsolation("read committed")).Conn(t), "show transaction_isolation"); got != "read committed" {
		t.Errorf("the test's own isolation lost: %s", got)
	}
}

func TestServerSettings(t *testing.T) {
	t.Parallel()
	conn := New(t).Conn(t)
	if ServerKind(t) == kindURL {
		return // its settings are not ours
	}
	for name, want := range testSettings(nil) {
		if got := value[string](t, conn, "select current_setting($1)", name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	conn := New(t).Conn(t)
	if _, err := conn.Exec(t.Context(), "do $$ begin raise warning 'found me in the log'; end $$"); err != nil {
		t.Fatal(err)
	}
	if ServerKind(t) == kindURL {
		fails(t, "out of reach", func(t testing.TB) { Log(t) })
		return
	}
	for deadline := time.Now().Add(waitLimit); !strings.Contains(Log(t), "found me in the log"); time.Sleep(waitStep) {
		if time.Now().After(deadline) {
			t.Fatalf("not in the log:\n%s", Log(t))
		}
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := New(t)
	holder, waiter, observer := db.Conn(t), db.Conn(t), db.Conn(t)
	pid := waiter.PgConn().PID()
	tx, err := holder.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "insert into app.thing values (1)"); err != nil {
		t.Fatal(err)
	}
	WaitIdle(t, observer, holder.PgConn().PID())
	WaitIdle(t, observer, pid)
	outcome := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(ctx, "insert into app.thing values (1)")
		outcome <- err
	}()
	// A transaction of the observer freezes the view; the wait must see through it.
	watching, err := observer.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	WaitBlocked(t, watching, pid)
	seen, err := Look(ctx, watching, pid)
	if err != nil || len(seen.BlockedBy) != 1 || seen.BlockedBy[0] != holder.PgConn().PID() {
		t.Errorf("%+v, %v", seen, err)
	}
	picture := Activity(ctx, watching)
	if !strings.Contains(picture, fmt.Sprintf("blocked by {%d}", holder.PgConn().PID())) {
		t.Error(picture)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	WaitIdle(t, watching, pid)
	fails(t, "did not wait for a lock\nactivity:\n  pid", func(t testing.TB) { WaitBlocked(t, observer, pid) })
}

func TestLookAtNobody(t *testing.T) {
	t.Parallel()
	found, err := Look(t.Context(), New(t).Conn(t), 2_000_000_000)
	if err != nil || found.Exists {
		t.Errorf("%+v, %v", found, err)
	}
}

func BenchmarkNew(b *testing.B) {
	use(b) // starts the server
	for b.Loop() {
		New(b).Conn(b)
	}
}

func FuzzNew(f *testing.F) {
	pool := New(f).Pool(f)
	f.Add("text")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ToValidUTF8(text, "") != text || strings.Contains(text, "\x00") {
			return
		}
		if got := value[string](t, pool, "select $1::text", text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestChooseServerFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"not a URL": {map[string]string{DatabaseURLEnv: "host=secret"}, "is not a postgres:// URL"},
	} {
		_, err := chooseServer(t.Context(), nil, func(name string) string { return test.env[name] })
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Not parallel: it sets the environment.
func TestNoServerAtAll(t *testing.T) {
	t.Setenv("PGBIN", t.TempDir())
	_, err := chooseServer(t.Context(), nil, func(name string) string {
		return map[string]string{"DOCKER_HOST": "unix:///nowhere/docker.sock"}[name]
	})
	if err == nil || !strings.Contains(err.Error(), "apt install postgresql") || !strings.Contains(err.Error(), DatabaseURLEnv) {
		t.Errorf("the error does not help: %v", err)
	}
}

func TestPingDocker(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "ssh://somewhere", "::"} {
		begin := time.Now()
		if err := pingDocker(t.Context(), host); err == nil {
			t.Errorf("%s answered", host)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s took %s", host, took)
		}
	}
}

func TestServerGivenByURL(t *testing.T) {
	t.Parallel()
	own := New(t)
	h := &harness{}
	h.configure(Options{Migrate: func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "create table made (n int)")
		return err
	}})
	var err error
	if h.server, err = givenServer(own.URL(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := h.server.log(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	h.run = "given"
	config, err := pgxpool.ParseConfig(own.URL())
	if err != nil {
		t.Fatal(err)
	}
	if h.admin, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := h.makeTemplate(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("clone", func(t *testing.T) {
		if got := value[int](t, h.database(t, h.template(), nil).Conn(t), "select count(*)::int from public.made"); got != 0 {
			t.Error(got)
		}
	})
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	left := value[int](t, current.admin, "select count(*)::int from pg_database where datname like 'pgqueue%given%'")
	if left != 0 {
		t.Errorf("%d databases are left on the server", left)
	}
}

func TestHarnessFailures(t *testing.T) {
	h := &harness{}
	if err := h.start(); err == nil || !strings.Contains(err.Error(), "pgtest.Main") {
		t.Errorf("without Main: %v", err)
	}
	h.configure(Options{Migrate: func(context.Context, *pgx.Conn) error { return errors.New("cannot migrate") }})
	if err := h.start(); err == nil || !strings.Contains(err.Error(), "cannot migrate") {
		t.Errorf("failing migration: %v", err)
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}
