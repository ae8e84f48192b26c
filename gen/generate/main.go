// Command generate writes the Go client of the SQL functions, read from a database that it migrates itself. See package gen.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

const databaseEnv = "PGQUEUE_GENERATE_DATABASE_URL"

func main() {
	check := flag.Bool("check", false, "compare with the file and exit with status 1 if it differs")
	out := flag.String("o", "", "file to write (default gen/functions.gen.go of the module)")
	url := flag.String("database-url", os.Getenv(databaseEnv), "server to create a scratch database on (default $"+databaseEnv+", else a temporary server)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *url, *out, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, out string, check bool) error {
	if out == "" {
		root, err := moduleRoot()
		if err != nil {
			return err
		}
		out = filepath.Join(root, "gen", "functions.gen.go")
	}
	found, err := readMigrated(ctx, url)
	if err != nil {
		return err
	}
	built, err := build(found)
	if err != nil {
		return err
	}
	source, err := emit(built)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(out, source, 0o644)
	}
	committed, err := os.ReadFile(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if hint := difference(committed, source); hint != "" {
		return fmt.Errorf("%s is not what the SQL calls for; run: go run ./gen/generate\n%s", out, hint)
	}
	return nil
}

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/pgqueue/pgqueue$`)

// moduleRoot finds the module from the working directory upward, so that go generate works in any folder of it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(text) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not in the pgqueue module; name a file with -o")
		}
		dir = parent
	}
}

// difference shows the first line that is not the same; empty for equal texts.
func difference(committed, generated []byte) string {
	if bytes.Equal(committed, generated) {
		return ""
	}
	was, is := bytes.Split(committed, []byte("\n")), bytes.Split(generated, []byte("\n"))
	i := 0
	for i < len(was) && i < len(is) && bytes.Equal(was[i], is[i]) {
		i++
	}
	line := func(lines [][]byte) string {
		if i < len(lines) {
			return string(lines[i])
		}
		return "(end of file)"
	}
	return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, line(was), line(is))
}
