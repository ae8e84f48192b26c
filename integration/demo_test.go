package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

var demoLine = regexp.MustCompile(`(?m)^demo: offered \d+, created \d+, reused \d+ \(active \d+, window \d+, both \d+\), conflicts \d+, errors 0, retried \d+, reaped \d+, settled \d+: ok\n\z`)

func buildDemo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pgqueue")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := osexec.Command("go", "build", "-o", program, "../cmd/pgqueue").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// runDemo runs the command with almost no environment.
func runDemo(t *testing.T, program string, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := osexec.Command(program, append([]string{"demo"}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s%s", err, out.String(), errOut.String())
	}
	return out.String(), errOut.String()
}

// The demo as people run it: on a server of its own, and on a database that was given.
func TestDemoCommand(t *testing.T) {
	program := buildDemo(t)
	t.Run("own server", func(t *testing.T) {
		t.Parallel()
		if _, err := devserver.FindPrograms(); err != nil {
			t.Fatalf("the demo has no server to start: %v", err)
		}
		stdout, _ := runDemo(t, program, nil, "--limit", "600")
		if !demoLine.MatchString(stdout) {
			t.Errorf("the last line is missing in\n%s", stdout)
		}
	})
	t.Run("given database", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		stdout, stderr := runDemo(t, program, []string{"DATABASE_URL=" + db.URL()}, "--json", "--file", "../cmd/pgqueue/demo/webhooks.ndjson")
		if !demoLine.MatchString(stderr) {
			t.Errorf("the last line is missing in\n%s", stderr)
		}
		var s struct {
			Offered, Created, Reused, Conflicts, Errors, Settled, Reaped, Retried int
			OK                                                                    bool
		}
		if err := json.Unmarshal([]byte(stdout), &s); err != nil {
			t.Fatalf("%v in\n%s", err, stdout)
		}
		if !s.OK || s.Offered != s.Created+s.Reused+s.Conflicts+s.Errors || s.Settled != s.Created || s.Conflicts == 0 || s.Retried == 0 || s.Reaped == 0 {
			t.Errorf("the summary does not add up: %+v", s)
		}
		// By a look of our own at what the demo left behind.
		conn := db.Conn(t)
		if got := value[int](t, conn, "select count(*) from pgqueue.task where namespace like 'demo-%' and status = 'SUCCESSFUL'"); got != s.Created {
			t.Errorf("the database has %d successful tasks, the demo created %d", got, s.Created)
		}
		checkInvariants(t, conn)
	})
}
