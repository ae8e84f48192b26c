package sql

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

func TestServerCheck(t *testing.T) {
	for name, test := range map[string]struct {
		server server
		want   string // "" for a server that will do
	}{
		"oldest":       {server{number: 140000, version: "14.0", encoding: "UTF8"}, ""},
		"newer":        {server{number: 190001, version: "19.1", encoding: "UTF8"}, ""},
		"too old":      {server{number: 130014, version: "13.14", encoding: "UTF8"}, "the server is PostgreSQL 13.14; pgqueue needs 14 or newer"},
		"ancient":      {server{number: 90624, version: "9.6.24", encoding: "UTF8"}, "the server is PostgreSQL 9.6.24; pgqueue needs 14 or newer"},
		"other text":   {server{number: 170000, version: "17.0", encoding: "LATIN1"}, "the database's encoding is LATIN1; pgqueue needs UTF8"},
		"any bytes":    {server{number: 170000, version: "17.0", encoding: "SQL_ASCII"}, "the database's encoding is SQL_ASCII; pgqueue needs UTF8"},
		"in a standby": {server{number: 170000, version: "17.0", encoding: "UTF8", standby: true}, "the server is a standby in recovery; migrate its primary"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.server.check(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the answer is %q, want %q", got, test.want)
			}
		})
	}
}

// A mistake in a migration is found by its line in the file that people edit.
func TestExplain(t *testing.T) {
	text := pinnedPath + "-- head\ncreate table a ();\ncreate index on b (c);\n"
	failed := migrate.MigrationPgError{
		MigrationName: "003_more.sql", Sql: text,
		PgError: &pgconn.PgError{Code: "42P01", Message: `relation "b" does not exist`, Position: int32(strings.Index(text, "b (c)") + 1)},
	}
	err := explain(failed)
	if want := "at line 3 of 003_more.sql: create index on b (c);"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %q, want it to say %q", err, want)
	}
	if server := new(pgconn.PgError); !errors.As(err, &server) {
		t.Errorf("the server's error is lost in %v", err)
	}
	failed.PgError.Position = 0
	if err := explain(failed); !strings.Contains(err.Error(), "003_more.sql") {
		t.Errorf("the error is %q, want it to name the migration", err)
	}
	if err := explain(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestOnlyTheNewestMigrationInstallsFunctions(t *testing.T) {
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	installing := -1
	for i, m := range loaded {
		if !strings.HasPrefix(m.text, pinnedPath) {
			t.Errorf("%s runs without the pinned path", m.name)
		}
		if strings.Contains(m.text, "{{") {
			t.Errorf("%s has a template that nothing fills", m.name)
		}
		if strings.Contains(m.source, functionsHere) {
			installing = i
		}
	}
	if installing < 0 {
		t.Fatal("no migration installs the functions")
	}
	for i, m := range loaded {
		if installs := strings.Contains(m.text, "function pgqueue._gate("); installs != (i == installing) || installs != (m.functions != "") {
			t.Errorf("%s installs functions: %v", m.name, installs)
		}
	}
}
