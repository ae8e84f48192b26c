package sql

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pgqueue/pgqueue/functions"
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
	failed.Position = 0
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

// One function per file, under its name, in the folder of its role, and installed once.
func TestFunctionFiles(t *testing.T) {
	install, err := fs.ReadFile(functions.Files, "install.sql")
	if err != nil {
		t.Fatal(err)
	}
	creates := regexp.MustCompile(`(?m)^create or replace (?:function|procedure) pgqueue\.(\w+)\(`)
	count := 0
	err = fs.WalkDir(functions.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "install.sql" {
			return err
		}
		count++
		text, err := fs.ReadFile(functions.Files, name)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(path.Base(name), ".sql")
		if found := creates.FindAllStringSubmatch(string(text), -1); len(found) != 1 || found[0][1] != base {
			t.Errorf("%s creates %q, want only %s", name, found, base)
		}
		if strings.HasPrefix(base, "_") != (path.Dir(name) == "internal") {
			t.Errorf("%s is in the wrong folder", name)
		}
		if n := strings.Count(string(install), `{{ template "`+name+`" . }}`); n != 1 {
			t.Errorf("install.sql has %s %d times", name, n)
		}
		return nil
	})
	if err != nil || count < 50 {
		t.Errorf("%d files, %v", count, err)
	}
}
