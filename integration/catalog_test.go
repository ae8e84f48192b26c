package integration_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/gen"
)

//go:embed testdata/catalog.sql
var catalogSQL string

// catalog is everything that an installation makes, one object or property a line, in names that are the same in every database.
func catalog(t testing.TB, db gen.DB) string {
	t.Helper()
	exec(t, db, "set search_path = ''")
	defer exec(t, db, "reset search_path")
	text := value[string](t, db, catalogSQL)
	if n := strings.Count(text, "\n"); n < 200 {
		t.Fatalf("the catalog has %d lines only:\n%s", n, text)
	}
	return text
}

// difference lists the lines that only one of the catalogs has.
func difference(got, want string) string {
	only := func(a, b string) []string {
		in := strings.Split(b, "\n")
		slices.Sort(in)
		var lines []string
		for line := range strings.SplitSeq(a, "\n") {
			if _, found := slices.BinarySearch(in, line); !found {
				lines = append(lines, line)
			}
		}
		return lines
	}
	return fmt.Sprintf("too many:\n  %s\nmissing:\n  %s", strings.Join(only(got, want), "\n  "), strings.Join(only(want, got), "\n  "))
}
