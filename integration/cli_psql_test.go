package integration_test

import (
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// psql runs a script from stdin or a file, and returns what it prints.
func psql(t *testing.T, url, stdin string, args ...string) string {
	t.Helper()
	program := "psql"
	if programs, err := devserver.FindPrograms(); err == nil {
		program = programs.Path("psql")
	}
	if _, err := osexec.LookPath(program); err != nil {
		inPath, pathErr := osexec.LookPath("psql")
		if pathErr != nil {
			t.Fatalf("the test needs psql, which is neither %s nor in PATH: install postgresql-client", program)
		}
		program = inPath
	}
	cmd := osexec.CommandContext(t.Context(), program, append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url}, args...)...)
	cmd.Env = onURL("", "").env
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return string(out)
}

// cliSQL: what the command prints for psql installs the same as migrate.
func cliSQL(t *testing.T, bin string) {
	script := onURL(bin, "").run(t, "", "sql")
	migrated, installed := pgtest.Empty(t), pgtest.Empty(t)
	onURL(bin, migrated.URL()).run(t, "", "migrate")
	if out := psql(t, installed.URL(), script, "-1"); out != "" {
		t.Errorf("psql prints %q", out)
	}
	if got, want := catalog(t, installed.Conn(t)), catalog(t, migrated.Conn(t)); got != want {
		t.Errorf("the script makes another schema than migrate:\n%s", difference(got, want))
	}
	onURL(bin, installed.URL()).created(t, "t")
	if out := onURL(bin, installed.URL()).run(t, "", "migrate"); !strings.HasSuffix(out, ": up to date\n") {
		t.Errorf("migrate after psql prints %q", out)
	}
}

// TestQuickstartInPSQL runs the example, twice on one database as it promises.
func TestQuickstartInPSQL(t *testing.T) {
	t.Parallel()
	const want = `first enqueue: CREATED
second enqueue: REUSED ACTIVE READY same task: t
claimed: send_invoice of order 42 attempt 1
completed: OK
state now: SUCCESSFUL with result {"sent": true}
third enqueue: CREATED same task: f
in the end: DISCARDED
`
	db := pgtest.New(t)
	for range 2 {
		if got := psql(t, db.URL(), "", "-f", filepath.Join("..", "examples", "psql", "quickstart.sql")); got != want {
			t.Errorf("the example prints\n%s\nwant\n%s", got, want)
		}
	}
}
