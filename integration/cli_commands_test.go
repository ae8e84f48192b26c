package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// cliCommands looks at the commands for operators.
func cliCommands(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	s.run(t, "", "stats")
	held := s.created(t, "t", "--active-key", "k", "--max-attempts", "1")
	s.run(t, "", "work", "--exec", "echo broken >&2; exit 1", "--drain")
	newer := s.created(t, "t", "--active-key", "k", "--delay", "1h")

	if out := s.run(t, "", "retry", held); out != "RETRIED "+held+": beside "+newer+", a newer task that holds its key\n" {
		t.Errorf("retry prints %q", out)
	}
	const unknown = "0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e"
	if out := s.fails(t, 1, "", "unknown task", "discard", unknown, held); out != "DISCARDED "+held+"\n" {
		t.Errorf("discard prints %q", out)
	}
	s.fails(t, 1, "", "invalid state", "discard", held)
	if out := s.run(t, "", "cancel", newer); out != "DISCARDED "+newer+"\n" {
		t.Errorf("cancel prints %q", out)
	}
	if out := s.run(t, "", "retry", newer, "--json"); !strings.Contains(out, `"done":"RETRIED","status":"READY"`) {
		t.Errorf("retry --json prints %q", out)
	}
	shown := s.run(t, "", "task", held)
	for _, want := range []string{held, "DISCARDED", "active key    k", "attempt 1    FAILED", "exit status 1: broken"} {
		if !strings.Contains(shown, want) {
			t.Errorf("task does not show %q:\n%s", want, shown)
		}
	}

	stats := lines(s.run(t, "", "stats"))
	if fmt.Sprint(stats[0]) != "[QUEUE READY SCHEDULED RUNNING SUCCESSFUL FAILED LOST DISCARDED OLDEST]" ||
		!strings.HasPrefix(fmt.Sprint(stats[1]), "[default 1 0 0 0 0 0 1 ") {
		t.Errorf("stats prints %q", stats)
	}
	if out := s.run(t, "", "stats", "--namespace", "other"); !strings.Contains(out, `no tasks in namespace "other"`) {
		t.Errorf("stats of an empty namespace prints %q", out)
	}

	if out := s.run(t, "", "prune", "--retention", "7d"); !strings.HasPrefix(out, "deleted 0 tasks") {
		t.Errorf("prune prints %q", out)
	}
	if out := s.run(t, "", "prune", "--retention", "0s", "--failed-retention", "0s", "--json"); !strings.Contains(out, `"tasks":1`) {
		t.Errorf("prune --json prints %q", out)
	}
	if out := s.run(t, "", "reap"); out != "0 tasks back in the queue, 0 lost, 0 discarded\n" {
		t.Errorf("reap prints %q", out)
	}
}

// cliHelp: every command explains itself, and has an example.
func cliHelp(t *testing.T, bin string) {
	s := onURL(bin, "")
	for _, name := range []string{
		"migrate", "sql", "dev", "enqueue", "work", "stats", "task", "retry", "discard", "cancel", "prune", "reap", "version",
	} {
		if out := s.run(t, "", name, "--help"); !strings.Contains(out, "Usage:") || !strings.Contains(out, "Examples:\n  pgqueue "+name) {
			t.Errorf("help of %s:\n%s", name, out)
		}
		if !strings.Contains(s.run(t, "", "--help"), "\n  "+name+" ") {
			t.Errorf("pgqueue --help has no %s", name)
		}
	}
	var version struct{ Schema int }
	decode(t, s.run(t, "", "version", "--json"), &version)
	if version.Schema < 2 {
		t.Errorf("the schema's version is %d", version.Schema)
	}
}

// cliErrors: what goes wrong is said in plain words, with the right exit code.
func cliErrors(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	nowhere := onURL(bin, "postgres://me:secret@127.0.0.1:1/none")
	bare := onURL(bin, pgtest.Empty(t).URL())
	const unknown = "0197e2c4-5f1a-7b3c-8d2e-9f0a1b2c3d4e"
	for _, c := range []struct {
		site    site
		code    int
		message string
		args    string
	}{
		{s, 2, `unknown command "enque" for "pgqueue"`, "enque t"},
		{s, 2, "unknown flag: --uniq\nRun 'pgqueue enqueue --help'", "enqueue t --uniq"},
		{s, 2, "give a TASK, or --ndjson", "enqueue"},
		{s, 2, "--payload: it is not valid JSON", "enqueue t --payload {"},
		{s, 2, "it must be a whole number", "enqueue t --priority high"},
		{s, 2, "--active-key: it is empty", "enqueue t --active-key="},
		{s, 2, "is not a time span", "enqueue t --delay tomorrow"},
		{s, 2, "is not a task's id", "task 7"},
		{s, 2, "give the id of at least one task", "retry"},
		{s, 2, "--exec is required", "work"},
		{s, 2, "--log-level", "stats --log-level loud"},
		{s, 1, "invalid_key: active_key", "enqueue t --active-key \x01"},
		{s, 1, "Hint:  A key is 1 to 512 bytes", "enqueue t --active-key " + strings.Repeat("k", 513)},
		{s, 1, "unknown task: there is no task " + unknown, "task " + unknown},
		{s, 1, "length is", "work --exec true --lease 1ms"},
		{bare, 1, "run: pgqueue migrate", "stats"},
		{bare, 1, "run: pgqueue migrate", "enqueue t"},
		{bare, 1, "run: pgqueue migrate", "work --exec true --drain"},
		{nowhere, 1, `cannot connect to database "none" at 127.0.0.1:1 as user "me": connection refused`, "stats"},
		{nowhere, 1, "cannot connect", "migrate"},
		{onURL(bin, "postgres://me:secret@host:port/none"), 1, "the database URL is wrong", "stats"},
	} {
		c.site.fails(t, c.code, "", c.message, strings.Split(c.args, " ")...)
	}

	p := nowhere.start(t, "", "stats", "--json")
	code := p.wait(t)
	var failure struct {
		Error struct{ Message, Hint string }
	}
	decode(t, p.stderr.String(), &failure)
	if code != 1 || !strings.Contains(failure.Error.Message, "cannot connect") || failure.Error.Hint == "" || strings.Contains(p.stderr.String(), "secret") {
		t.Errorf("as JSON: exit code %d, %s", code, &p.stderr)
	}
}

// cliMigrate installs into an empty database, once.
func cliMigrate(t *testing.T, bin string) {
	s := onURL(bin, pgtest.Empty(t).URL())
	if out := s.run(t, "", "migrate"); !strings.HasPrefix(out, "schema installed: version ") {
		t.Errorf("migrate prints %q", out)
	}
	if out := s.run(t, "", "migrate"); !strings.HasSuffix(out, ": up to date\n") {
		t.Errorf("migrate prints %q the second time", out)
	}
	s.created(t, "t")
	var versions map[string]int
	decode(t, s.run(t, "", "migrate", "--json"), &versions)
	if versions["before"] != versions["after"] || versions["after"] != versions["program"] {
		t.Errorf("migrate --json prints %v", versions)
	}
}

// cliDev keeps the embedded server up for others, until it is told to end.
func cliDev(t *testing.T, bin string) {
	s := onDevServer(t, bin)
	if _, err := devserver.FindPrograms(); err != nil {
		s.fails(t, 1, "", "apt install postgresql", "dev")
		return
	}
	dev := s.start(t, "", "dev", "--json")
	dev.stdout.await(t, "\n", 1)
	var server struct {
		URL     string
		DataDir string `json:"data_dir"`
	}
	decode(t, dev.stdout.String(), &server)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	enqueue := s.start(t, "", "enqueue", "t")
	if code := enqueue.wait(t); code != 0 {
		t.Fatalf("enqueue: exit code %d\n%s", code, &enqueue.stderr)
	}
	if text := enqueue.stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, server.DataDir) {
		t.Errorf("the notice is %q, want one line with %s", text, server.DataDir)
	}
	if ready := s.count(t, "ready"); ready != 1 {
		t.Errorf("%v tasks are READY", ready)
	}

	pidFile := filepath.Join(server.DataDir, "postmaster.pid")
	if _, err := os.Stat(pidFile); err != nil {
		t.Errorf("the server does not run on: %v", err)
	}
	dev.signal(t, syscall.SIGTERM)
	if code := dev.wait(t); code != 0 {
		t.Errorf("dev: exit code %d\n%s", code, &dev.stderr)
	}
	if _, err := os.Stat(pidFile); !os.IsNotExist(err) {
		t.Errorf("the server runs on after its last user: %v", err)
	}
}
