package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/sql"
)

// direct is a connection as a program that migrates would open it: with the server's own search path and no test mode.
func direct(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func migrated(t testing.TB, db *pgtest.DB) *pgx.Conn {
	t.Helper()
	conn := direct(t, db.URL())
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

// case_C59. Each migrator answers only when the schema is there.
func TestCase_C59_ManyMigrators(t *testing.T) {
	t.Parallel()
	const migrators = 20
	db := pgtest.Empty(t)
	conns := make([]*pgx.Conn, migrators)
	for i := range conns {
		conns[i] = direct(t, db.URL())
	}
	own, err := sql.Version()
	if err != nil {
		t.Fatal(err)
	}
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			<-start
			if err := sql.Migrate(t.Context(), conn); err != nil {
				t.Errorf("migrator %d: %v", i, err)
				return
			}
			var version int
			if err := conn.QueryRow(t.Context(), "select pgqueue.schema_version()").Scan(&version); err != nil || version != own {
				t.Errorf("migrator %d sees version %d, %v; want %d", i, version, err, own)
			}
		})
	}
	close(start)
	all.Wait()
	if got, want := catalog(t, conns[0]), catalog(t, migrated(t, pgtest.Empty(t))); got != want {
		t.Errorf("the schema is not what one migrator makes:\n%s", difference(got, want))
	}
	if rows := value[int](t, conns[0], "select count(*) from pgqueue.schema_migration"); rows != 1 {
		t.Errorf("%d rows of versions, want 1", rows)
	}
	if locks := value[int](t, conns[0], "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"); locks != 0 {
		t.Errorf("%d advisory locks are left", locks)
	}
}

func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	conn := migrated(t, pgtest.Empty(t))
	before := catalog(t, conn)
	exec(t, conn, "select pgqueue.enqueue('send')")
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if after := catalog(t, conn); after != before {
		t.Errorf("the second time changed the schema:\n%s", difference(after, before))
	}
	if n := value[int](t, conn, "select count(*) from pgqueue.task"); n != 1 {
		t.Errorf("%d tasks after the second time, want 1", n)
	}
}

// case_C59: a call by name never meets two functions.
func TestCase_C59_EveryFunctionOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if twice := value[string](t, e.pool, `select coalesce(string_agg(n, ', '), '') from (
		select proname from pg_proc where pronamespace = 'pgqueue'::regnamespace group by 1 having count(*) > 1) d (n)`); twice != "" {
		t.Errorf("overloaded: %s", twice)
	}
	for _, name := range []string{"enqueue", "enqueue_unique", "try_enqueue", "try_enqueue_unique", "enqueue_many"} {
		argument := "'send'"
		if name == "enqueue_many" {
			argument = `'[{"task_name": "send"}]'`
		}
		if n := value[int](t, e.pool, fmt.Sprintf("select count(r.task_id) from pgqueue.%s(%s) r", name, argument)); n != 1 {
			t.Errorf("%s answers with %d receipts", name, n)
		}
	}
}

// An older program meets a database that a newer one has migrated.
func TestMigrateNewerDatabase(t *testing.T) {
	t.Parallel()
	conn := migrated(t, pgtest.Empty(t))
	own, err := sql.Version()
	if err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "update pgqueue.schema_migration set version = $1", own+5)
	exec(t, conn, "create function pgqueue.from_the_future() returns int language sql as 'select 1'")
	exec(t, conn, "drop function pgqueue.enqueue_many")
	exec(t, conn, "update pgqueue.schema_compatibility set breaking_version = $1", own)
	before := catalog(t, conn)
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Errorf("no breaking step lies between: %v", err)
	}
	if after := catalog(t, conn); after != before {
		t.Errorf("the newer schema was changed:\n%s", difference(after, before))
	}
	exec(t, conn, "update pgqueue.schema_compatibility set breaking_version = $1", own+3)
	before = catalog(t, conn)
	err = sql.Migrate(t.Context(), conn)
	if !errors.Is(err, sql.ErrSchemaTooNew) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", own+5)) {
		t.Errorf("the error is %v, want ErrSchemaTooNew with the database's version", err)
	}
	if after := catalog(t, conn); after != before {
		t.Errorf("the newer schema was changed:\n%s", difference(after, before))
	}
}

func TestMigrateNeedsUTF8(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	admin := direct(t, db.URL())
	for _, encoding := range []string{"SQL_ASCII", "LATIN1"} {
		name := db.Name + "_" + strings.ToLower(encoding)
		exec(t, admin, fmt.Sprintf("create database %s template template0 encoding '%s' lc_collate 'C' lc_ctype 'C'", name, encoding))
		t.Cleanup(func() {
			if _, err := admin.Exec(context.WithoutCancel(t.Context()), "drop database "+name+" with (force)"); err != nil {
				t.Error(err)
			}
		})
		conn := direct(t, otherDatabase(t, db.URL(), name))
		want := "the database's encoding is " + encoding
		if err := sql.Migrate(t.Context(), conn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		if err := runScript(t, conn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the script's error is %v, want %q", err, want)
		}
		exec(t, conn, "rollback")
		if value[bool](t, conn, "select to_regnamespace('pgqueue') is not null") {
			t.Error("a refused database has the schema")
		}
	}
}

func otherDatabase(t testing.TB, text, name string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// runScript does what psql -1 does.
func runScript(t testing.TB, conn *pgx.Conn) error {
	t.Helper()
	script, err := sql.Script()
	if err != nil {
		t.Fatal(err)
	}
	return conn.PgConn().Exec(t.Context(), "begin;\n"+script+"\ncommit;").Close()
}

func TestMigrateScript(t *testing.T) {
	t.Parallel()
	conn := direct(t, pgtest.Empty(t).URL())
	if err := runScript(t, conn); err != nil {
		t.Fatal(err)
	}
	if got, want := catalog(t, conn), catalog(t, migrated(t, pgtest.Empty(t))); got != want {
		t.Errorf("the script makes another schema than Migrate:\n%s", difference(got, want))
	}
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Errorf("migrate after the script: %v", err)
	}

	before := catalog(t, conn)
	err := runScript(t, conn)
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "42P06" {
		t.Errorf("a second run answers %v, want 42P06", err)
	}
	exec(t, conn, "rollback")
	if after := catalog(t, conn); after != before {
		t.Errorf("the refused run changed the schema:\n%s", difference(after, before))
	}
}

// What is there already makes the migration fail as a whole, with its name.
func TestMigrateFails(t *testing.T) {
	t.Parallel()
	conn := direct(t, pgtest.Empty(t).URL())
	exec(t, conn, "create schema pgqueue")
	exec(t, conn, "create view pgqueue.task_view as select 1 as one")
	err := sql.Migrate(t.Context(), conn)
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "42P07" || !strings.Contains(err.Error(), "001_tables.sql") {
		t.Errorf("the error is %v, want 42P07 of 001_tables.sql", err)
	}
	if relations := value[string](t, conn, "select string_agg(relname, ', ' order by relname) from pg_class where relnamespace = 'pgqueue'::regnamespace"); relations != "schema_migration, task_view" {
		t.Errorf("there are %s", relations)
	}
	if version := value[int](t, conn, "select version from pgqueue.schema_migration"); version != 0 {
		t.Errorf("version %d, want 0", version)
	}
	// Once the obstacle is gone, the same connection goes on.
	exec(t, conn, "drop view pgqueue.task_view")
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

// A role that owns the schema, and may do nothing else in the database, installs and works.
func TestMigrateAsOwnerOfTheSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	admin := direct(t, db.URL())
	role := db.Name + "_owner"
	exec(t, admin, fmt.Sprintf("create role %s", role))
	t.Cleanup(func() {
		for _, statement := range []string{"drop owned by ", "drop role "} {
			if _, err := admin.Exec(context.WithoutCancel(t.Context()), statement+role); err != nil {
				t.Error(err)
			}
		}
	})
	exec(t, admin, fmt.Sprintf("create schema pgqueue authorization %s", role))
	conn := direct(t, db.URL("role", role))
	for range 2 {
		if err := sql.Migrate(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	if disposition := value[string](t, conn, "select (pgqueue.enqueue('send')).disposition::text"); disposition != "CREATED" {
		t.Errorf("enqueue answers %s", disposition)
	}
}

// Names in the search path of whoever migrates do not end up in the schema.
func TestR2_MigrateUnderAHostilePath(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	conn := direct(t, db.URL("search_path", "public,pg_catalog"))
	exec(t, conn, "create domain public.text as pg_catalog.text check (value <> 'send')")
	exec(t, conn, "create domain public.uuid as pg_catalog.uuid")
	exec(t, conn, "create function public.sha256(pg_catalog.bytea) returns pg_catalog.bytea language sql as $$ select '\\x00'::pg_catalog.bytea $$")
	exec(t, conn, "create function public.convert_to(pg_catalog.text, pg_catalog.name) returns pg_catalog.bytea language sql as $$ select '\\x00'::pg_catalog.bytea $$")
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if got, want := catalog(t, direct(t, db.URL())), catalog(t, migrated(t, pgtest.Empty(t))); got != want {
		t.Errorf("the schema depends on the path of who migrates:\n%s", difference(got, want))
	}
}
