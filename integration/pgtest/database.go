package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a database of one test. It goes when the test ends, with all sessions on it.
type DB struct {
	Name   string
	server *server
}

type databaseConfig struct {
	settings [][2]string
}

// Option tunes a database.
type Option func(*databaseConfig)

// WithSetting sets a server setting for all sessions on the database, by ALTER DATABASE.
func WithSetting(name, value string) Option {
	return func(c *databaseConfig) { c.settings = append(c.settings, [2]string{name, value}) }
}

// WithIsolation is the setting default_transaction_isolation; it wins over PGQUEUE_TEST_ISOLATION.
func WithIsolation(level string) Option { return WithSetting("default_transaction_isolation", level) }

// New makes a database with the schema of Options.Migrate.
func New(t testing.TB, options ...Option) *DB {
	t.Helper()
	h := use(t)
	return h.database(t, h.template(), options)
}

// Empty makes a database with nothing in it, for tests of the migrations themselves.
func Empty(t testing.TB, options ...Option) *DB {
	t.Helper()
	return use(t).database(t, "template0", options)
}

func (h *harness) database(t testing.TB, template string, options []Option) *DB {
	t.Helper()
	var config databaseConfig
	if level := os.Getenv(IsolationEnv); level != "" {
		WithIsolation(level)(&config)
	}
	for _, option := range options {
		option(&config)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name, err := h.clone(ctx, template)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := h.drop(ctx, name); err != nil {
			t.Errorf("pgtest: drop database %s: %v", name, err)
		}
	})
	for _, setting := range config.settings {
		var quoted []string
		for part := range strings.SplitSeq(setting[0], ".") {
			quoted = append(quoted, quoteIdentifier(part))
		}
		statement := fmt.Sprintf("alter database %s set %s = %s",
			quoteIdentifier(name), strings.Join(quoted, "."), quoteLiteral(setting[1]))
		if _, err := h.admin.Exec(ctx, statement); err != nil {
			t.Fatalf("pgtest: setting %s: %v", setting[0], err)
		}
	}
	return &DB{Name: name, server: h.server}
}

// URL names the database for any client. The parameters are pairs of name and value, added to the query part.
func (db *DB) URL(parameters ...string) string { return db.server.url(db.Name, parameters...) }

// ConnOption tunes the connections of Pool and Conn.
type ConnOption func(*pgxpool.Config)

// MaxConns bounds a pool.
func MaxConns(n int32) ConnOption { return func(c *pgxpool.Config) { c.MaxConns = n } }

// RuntimeParam sets a server setting for the session at its start, like application_name.
func RuntimeParam(name, value string) ConnOption {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

// ExecMode sets pgx's default_query_exec_mode; it wins over PGQUEUE_TEST_EXEC_MODE.
func ExecMode(mode pgx.QueryExecMode) ConnOption {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

// Configure changes what the other options do not reach. For Conn only ConnConfig counts.
func Configure(change func(*pgxpool.Config)) ConnOption { return change }

// The search_path is empty, so that code that depends on one fails in the tests.
func (db *DB) config(t testing.TB, pooler *url.URL, options []ConnOption) *pgxpool.Config {
	t.Helper()
	var parameters []string
	if mode := os.Getenv(ExecModeEnv); mode != "" {
		parameters = []string{"default_query_exec_mode", mode}
	}
	server := db.server.base
	if pooler != nil {
		server = pooler
	}
	config, err := pgxpool.ParseConfig(withDatabase(server, db.Name, parameters...))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = ""
	for _, option := range options {
		option(config)
	}
	if pooler != nil {
		dropDefaults(t, config.ConnConfig.RuntimeParams)
	}
	return config
}

// poolerSettings are what the pooler sets on each of its connections. It would refuse a session that brings them, or any other.
var poolerSettings = map[string]string{
	"search_path": "", "default_transaction_isolation": "read committed", "statement_timeout": "20s",
}

func dropDefaults(t testing.TB, params map[string]string) {
	t.Helper()
	for name, value := range params {
		if own, known := poolerSettings[name]; known && own == value {
			delete(params, name)
		} else if name != "application_name" {
			t.Fatalf("pgtest: a session through the pooler cannot have %s = %s", name, value)
		}
	}
}

// Pool opens a pool that is closed when the test ends. It goes through the pooler where there is one.
func (db *DB) Pool(t testing.TB, options ...ConnOption) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), db.config(t, db.server.pooler, options))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return pool
}

// Conn opens one connection that is closed when the test ends, always to the server itself: who asks for one wants a session.
func (db *DB) Conn(t testing.TB, options ...ConnOption) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), db.config(t, nil, options).ConnConfig)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Logf("pgtest: close connection: %v", err) // the test may have broken it on purpose
		}
	})
	return conn
}
