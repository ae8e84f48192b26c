//go:build unix

package devserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakePrograms makes a folder whose programs print a version.
func fakePrograms(t *testing.T, dir, version string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s (made up)'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var all = []string{"initdb", "postgres", "pg_ctl"}

func TestFindPrograms(t *testing.T) {
	root := t.TempDir()
	for version, full := range map[string]string{"9": "9.6.24", "14": "14.11", "100": "100beta1"} {
		fakePrograms(t, filepath.Join(root, "postgresql", version, "bin"), full, all...)
	}
	usual := []string{filepath.Join(root, "postgresql", "*", "bin")}
	newest := Programs{Dir: filepath.Join(root, "postgresql", "100", "bin"), Major: 100, Version: "100beta1"}
	onPath := fakePrograms(t, filepath.Join(root, "path"), "16.1", all...)
	half := fakePrograms(t, filepath.Join(root, "half"), "17.1", "initdb", "postgres")
	links := filepath.Join(root, "links")
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(onPath, "initdb"), filepath.Join(links, "initdb")); err != nil {
		t.Fatal(err)
	}
	path := Programs{Dir: onPath, Major: 16, Version: "16.1"}
	for name, test := range map[string]struct {
		search search
		want   Programs
	}{
		"newest by number":       {search{patterns: usual}, newest},
		"path before the usual":  {search{path: onPath, patterns: usual}, path},
		"link on the path":       {search{path: links, patterns: usual}, path},
		"half a folder on path":  {search{path: half, patterns: usual}, newest},
		"PGBIN before the path":  {search{pgbin: newest.Dir, path: onPath, patterns: usual}, newest},
		"half, then full folder": {search{path: half + string(os.PathListSeparator) + onPath}, path},
	} {
		got, err := test.search.find()
		if resolved, e := filepath.EvalSymlinks(test.want.Dir); e == nil && got.Dir == resolved {
			got.Dir = test.want.Dir // the temporary folder itself may be behind a link
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestFindProgramsSaysWhatToInstall(t *testing.T) {
	root := t.TempDir()
	old := fakePrograms(t, filepath.Join(root, "old"), "9.6.24", all...)
	half := fakePrograms(t, filepath.Join(root, "half"), "17.1", "initdb", "pg_ctl")
	_, err := search{path: half, patterns: []string{filepath.Join(root, "ol*"), filepath.Join(root, "nothing*")}}.find()
	if !errors.Is(err, ErrNoPrograms) {
		t.Fatal(err)
	}
	for _, want := range []string{
		half + ": no usable postgres", old + ": PostgreSQL 9.6.24 is too old", filepath.Join(root, "nothing*"),
		"apt install postgresql", "dnf install postgresql-server", "brew install postgresql", "PGBIN", "DATABASE_URL",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := (search{pgbin: root, path: half}).find(); !errors.Is(err, ErrNoPrograms) || !strings.Contains(err.Error(), "$PGBIN: "+root) {
		t.Errorf("wrong PGBIN: %v", err)
	}
}
