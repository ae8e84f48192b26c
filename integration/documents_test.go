package integration_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateDocuments = flag.Bool("update", false, "write docs/isolation.md and the links of docs/guarantees.md anew")

var guaranteeLine = regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)\*\* (.*?)(?: \[[^ ]*_test\.go\]\(.*)?$`)

// Every guarantee in the documents names the test files that show it, and each of those names the guarantee.
// go test ./integration -run Documents -update writes the links.
func TestDocumentsGuarantees(t *testing.T) {
	t.Parallel()
	sources := testSources(t)
	const page = "../docs/guarantees.md"
	text := readFile(t, page)
	seen := map[string]bool{}
	linked := guaranteeLine.ReplaceAllStringFunc(text, func(line string) string {
		m := guaranteeLine.FindStringSubmatch(line)
		number, words := m[1], m[2]
		if seen[number] {
			t.Errorf("%s stands there twice", number)
		}
		seen[number] = true
		name := regexp.MustCompile(`\b` + number + `\b`)
		var links []string
		for _, file := range slices.Sorted(maps.Keys(sources)) {
			if name.MatchString(sources[file]) && len(links) < 4 {
				links = append(links, fmt.Sprintf("[%s](../%s)", filepath.Base(file), file))
			}
		}
		if len(links) == 0 {
			t.Errorf("%s has no test that names it", number)
		}
		return fmt.Sprintf("- **%s** %s %s", number, words, strings.Join(links, ", "))
	})
	if len(seen) < 73 {
		t.Errorf("the page has %d guarantees", len(seen))
	}
	compareOrUpdate(t, page, linked)
}

// docs/isolation.md prints the table that TestIsolation runs.
func TestDocumentsIsolation(t *testing.T) {
	t.Parallel()
	answers := map[[2]string]string{}
	for _, c := range isolationTable {
		answer := c.answer
		if c.cause != "" {
			answer += " (`" + c.cause + "`)"
		}
		answers[[2]string{c.state, c.level}] = answer
	}
	var b strings.Builder
	b.WriteString(isolationPreface)
	for _, s := range isolationStates {
		fmt.Fprintf(&b, "| **%s**: %s |", s.state, s.meaning)
		for _, level := range levels {
			answer := answers[[2]string{s.state, level}]
			if answer == "" {
				t.Errorf("the table has no cell %s, %s", s.state, level)
			}
			fmt.Fprintf(&b, " %s |", answer)
		}
		b.WriteString("\n")
	}
	compareOrUpdate(t, "../docs/isolation.md", b.String())
}

const isolationPreface = `<!-- Written by go test ./integration -run Documents -update from the table that TestIsolation runs. -->
# Isolation levels

What an enqueue with an active key answers, by the isolation level of its transaction and by what becomes of the key's holder. "After" means
after the transaction's snapshot; READ COMMITTED takes a new snapshot for each statement.

*race* is SQLSTATE 40001 with constraint ` + "`unique_enqueue_race`" + ` and its cause (see [errors.md](errors.md)): nothing was written, and the transaction
should be run again. The ` + "`try_`" + ` functions and the Go client report it as a value and leave the transaction usable. Where the cause is
` + "`holder_changed`" + ` and the holder was pending in the snapshot, the queue looks once more from another connection: the Go client always, SQL when
the server of [loopback.md](loopback.md) exists. A holder that is pending still is then REUSED after all, as at READ COMMITTED.

At no level do two pending tasks of one key come about.

| state of the key | READ COMMITTED | REPEATABLE READ | SERIALIZABLE |
| --- | --- | --- | --- |
`

func compareOrUpdate(t *testing.T, path, want string) {
	t.Helper()
	if *updateDocuments {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have := readFile(t, path); have != want {
		t.Errorf("%s is not up to date: go test ./integration -run Documents -update", path)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && (!*updateDocuments || !os.IsNotExist(err)) {
		t.Fatal(err)
	}
	return string(text)
}

// testSources are the project's test files with their text, by path from its top.
func testSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, pattern := range []string{"../integration/*_test.go", "../pgqueue/*_test.go", "../gen/*_test.go", "../sql/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) != "documents_test.go" {
				sources[strings.TrimPrefix(filepath.ToSlash(file), "../")] = readFile(t, file)
			}
		}
	}
	return sources
}
