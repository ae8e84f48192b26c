// Package sql carries the database side of the queue and installs it: numbered tern migrations, the last of which installs the
// PL/pgSQL functions. It is apart from package pgqueue so that programs which only use the queue do not link the migrator.
package sql

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pgqueue/pgqueue/functions"
)

//go:embed *.sql
var migrations embed.FS

const (
	// VersionTable holds the number of the newest migration that a database has.
	VersionTable = "pgqueue.schema_migration"

	// functionsHere stands in a migration where it installs the functions.
	functionsHere = "{{ .functions }}"

	minimumServer = 140000
	// A migration must not depend on the search path of whoever migrates. In the line of its first statement, so that line numbers
	// stay those of the file.
	pinnedPath = "set local search_path = pg_catalog, pg_temp; "

	// scriptHead makes the checks of Migrate where psql runs the installation.
	scriptHead = pinnedPath + `
do $$
begin
	if current_setting('server_version_num')::int < 140000 then
		raise exception 'the server is PostgreSQL %; pgqueue needs 14 or newer', current_setting('server_version');
	elsif current_setting('server_encoding') <> 'UTF8' then
		raise exception 'the database''s encoding is %; pgqueue needs UTF8', current_setting('server_encoding');
	end if;
end
$$;
create schema pgqueue;
`
)

// ErrSchemaTooNew is returned when the database was migrated by a newer release with which this one cannot work.
var ErrSchemaTooNew = errors.New("PQ010 schema too new")

type migration struct {
	name   string
	source string
	text   string // as it runs
	// functions is their text in the migration that installs them, "" in all others.
	functions string
}

// load renders the migrations. Only the newest one that installs functions gets their text: an older one would install today's
// functions over tables that a later migration makes.
func load() ([]migration, error) {
	code, err := migrate.LoadCodePackage(functions.Files)
	if err != nil {
		return nil, fmt.Errorf("load functions: %w", err)
	}
	text, err := code.Eval(nil)
	if err != nil {
		return nil, fmt.Errorf("load functions: %w", err)
	}
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	loaded := make([]migration, len(names))
	newest := -1
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%03d_", i+1)) {
			return nil, fmt.Errorf("migration %s: its number should be %03d", name, i+1)
		}
		source, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		loaded[i] = migration{name: name, source: string(source)}
		if strings.Contains(loaded[i].source, functionsHere) {
			newest = i
		}
	}
	for i := range loaded {
		m := &loaded[i]
		install := ""
		if i == newest {
			m.functions, install = text, text
		}
		m.text = pinnedPath + strings.ReplaceAll(m.source, functionsHere, install)
	}
	return loaded, nil
}

// Version returns the number of the newest migration in this program.
func Version() (int, error) {
	loaded, err := load()
	return len(loaded), err
}

// Script returns everything that an installation into an empty database runs, for psql in one transaction (psql -1 -f). It stops
// with an error where schema pgqueue exists.
func Script() (string, error) {
	loaded, err := load()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(scriptHead)
	fmt.Fprintf(&b, "create table %s (version int4 not null);\ninsert into %s (version) values (%d);\n", VersionTable, VersionTable, len(loaded))
	for _, m := range loaded {
		fmt.Fprintf(&b, "\n-- %s\n\n%s\n", m.name, m.text)
	}
	return b.String(), nil
}

// Migrate brings the schema of a database to this program's version. Many may run at once, and again on a database that is up to
// date. A database that is newer is left alone; ErrSchemaTooNew then tells that this program cannot work with it.
// conn must be a direct connection, not one of a transaction pooler. It needs PostgreSQL 14 and encoding UTF8.
func Migrate(ctx context.Context, conn *pgx.Conn) (err error) {
	loaded, err := load()
	if err != nil {
		return err
	}
	if err := checkServer(ctx, conn); err != nil {
		return err
	}
	unlock, err := lock(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	if err := createSchema(ctx, conn); err != nil {
		return fmt.Errorf("create schema pgqueue: %w", err)
	}
	m, err := migrate.NewMigrator(ctx, conn, VersionTable)
	if err != nil {
		return fmt.Errorf("open %s: %w", VersionTable, err)
	}
	for _, l := range loaded {
		m.AppendMigration(l.name, l.text, "")
	}
	current, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", VersionTable, err)
	}
	if int(current) > len(loaded) {
		return checkCompatible(ctx, conn, int(current), len(loaded))
	}
	return explain(m.Migrate(ctx))
}

// server is what a migration needs to know of the server.
type server struct {
	number            int
	version, encoding string
	standby           bool
}

func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var s server
	err := conn.QueryRow(ctx, `select pg_catalog.current_setting('server_version_num')::pg_catalog.int4, pg_catalog.current_setting('server_version'),
		pg_catalog.current_setting('server_encoding'), pg_catalog.pg_is_in_recovery()`).Scan(&s.number, &s.version, &s.encoding, &s.standby)
	if err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	return s.check()
}

func (s server) check() error {
	switch {
	case s.number < minimumServer:
		return fmt.Errorf("the server is PostgreSQL %s; pgqueue needs 14 or newer", s.version)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; pgqueue needs UTF8", s.encoding)
	case s.standby:
		return errors.New("the server is a standby in recovery; migrate its primary")
	}
	return nil
}

// createSchema leaves a schema that is there alone: its owner need not be allowed to create schemas.
func createSchema(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, "select pg_catalog.to_regnamespace('pgqueue') is not null").Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "create schema pgqueue")
	return err
}

// lock makes this the only migrator. tern's own lock blocks inside a statement and so holds a snapshot, which deadlocks with
// a create index concurrently of the migrator that has it; polling holds none.
func lock(ctx context.Context, conn *pgx.Conn) (unlock func() error, err error) {
	const key = "hashtextextended('pgqueue.migrate', 0)"
	for {
		var got bool
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock("+key+")").Scan(&got); err != nil {
			return nil, fmt.Errorf("lock out other migrators: %w", err)
		}
		if got {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migrator: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return func() error {
		if conn.IsClosed() {
			return nil // the server released the lock with the session
		}
		_, err := conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock("+key+")")
		return err
	}, nil
}

func checkCompatible(ctx context.Context, conn *pgx.Conn, current, own int) error {
	var breaking int
	if err := conn.QueryRow(ctx, "select breaking_version from pgqueue.schema_compatibility").Scan(&breaking); err != nil {
		return fmt.Errorf("read pgqueue.schema_compatibility: %w", err)
	}
	if breaking > own {
		return fmt.Errorf("%w: the database has version %d, and version %d of it needs a newer pgqueue than this one (%d)", ErrSchemaTooNew, current, breaking, own)
	}
	return nil
}

// explain adds the line of the rendered text in which a migration failed.
func explain(err error) error {
	var failed migrate.MigrationPgError
	if !errors.As(err, &failed) {
		return err
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	line, lineErr := migrate.ExtractErrorLine(failed.Sql, int(pgErr.Position))
	if lineErr != nil {
		return err // no position
	}
	return fmt.Errorf("%w\nat line %d of %s: %s", err, line.LineNum, failed.MigrationName, line.Text)
}
