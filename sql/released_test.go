package sql

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

const releasedFile = "released.txt"

var update = flag.Bool("update", false, "note the migrations as released")

// A released migration has been run, and functions reach a database only by a migration: neither changes without a new number.
func TestReleased(t *testing.T) {
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(releasedFile, []byte(noteReleased(string(text), loaded)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, problem := range releaseProblems(string(text), loaded) {
		t.Error(problem)
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func releaseLine(m migration) string {
	fields := []string{m.name, digest(m.source)}
	if m.functions != "" {
		fields = append(fields, digest(m.functions))
	}
	return strings.Join(fields, " ")
}

// noteReleased keeps the lines that are there.
func noteReleased(text string, loaded []migration) string {
	noted := len(releasedLines(text))
	for i, m := range loaded {
		if i >= noted {
			text += releaseLine(m) + "\n"
		}
	}
	return text
}

func releasedLines(text string) [][]string {
	var lines [][]string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(line, "#") {
			lines = append(lines, fields)
		}
	}
	return lines
}

func releaseProblems(text string, loaded []migration) []string {
	var problems []string
	for i, line := range releasedLines(text) {
		switch {
		case i >= len(loaded):
			problems = append(problems, fmt.Sprintf("released migration %s is gone", line[0]))
		case len(line) < 2 || line[0] != loaded[i].name:
			problems = append(problems, fmt.Sprintf("released migration %s: its number has %s", line[0], loaded[i].name))
		case line[1] != digest(loaded[i].source):
			problems = append(problems, fmt.Sprintf("%s was changed after its release: undo that, and write a new migration", line[0]))
		// A migration that a newer one has relieved of the functions installs none any more.
		case loaded[i].functions != "" && (len(line) < 3 || line[2] != digest(loaded[i].functions)):
			problems = append(problems, fmt.Sprintf("functions/ was changed after the release of %s: add a migration %03d_functions.sql with the line %s",
				line[0], len(loaded)+1, functionsHere))
		}
	}
	return problems
}

func TestReleaseProblems(t *testing.T) {
	tables := migration{name: "001_tables.sql", source: "create table a ()"}
	functions := migration{name: "002_functions.sql", source: functionsHere, functions: "create function f()"}
	released := noteReleased("# head\n", []migration{tables, functions})

	tablesChanged, functionsChanged := tables, functions
	tablesChanged.source += ";"
	functionsChanged.functions += ";"
	relieved := functions
	relieved.functions = ""
	newer := migration{name: "003_functions.sql", source: functionsHere, functions: functionsChanged.functions}

	for name, test := range map[string]struct {
		loaded []migration
		want   string // of the one problem; "" for none
	}{
		"unchanged":                      {[]migration{tables, functions}, ""},
		"new table":                      {[]migration{tables, functions, {name: "003_more.sql", source: "x"}}, ""},
		"new number":                     {[]migration{tables, relieved, newer}, ""},
		"table changed":                  {[]migration{tablesChanged, functions}, "001_tables.sql was changed"},
		"functions changed":              {[]migration{tables, functionsChanged}, "add a migration 003_functions.sql"},
		"functions changed, table added": {[]migration{tables, functionsChanged, {name: "003_more.sql", source: "x"}}, "add a migration 004_functions.sql"},
		"renamed":                        {[]migration{tables, {name: "002_code.sql", source: functionsHere}}, "its number has 002_code.sql"},
		"gone":                           {[]migration{tables}, "002_functions.sql is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			got := releaseProblems(released, test.loaded)
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("the problems are %q, want %q", got, test.want)
			}
		})
	}
	if again := noteReleased(released, []migration{tables, relieved, newer}); !strings.HasPrefix(again, released) || strings.Count(again, "\n") != strings.Count(released, "\n")+1 {
		t.Errorf("a second release made %q of %q", again, released)
	}
}
