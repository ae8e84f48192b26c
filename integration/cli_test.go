package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// TestCommandLine runs the command as its users do: as processes.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "pgqueue")
	if out, err := osexec.Command("go", "build", "-buildvcs=false", "-o", bin, "github.com/pgqueue/pgqueue/cmd/pgqueue").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	for name, test := range map[string]func(t *testing.T, bin string){
		"batch":          cliBatch,
		"commands":       cliCommands,
		"dev":            cliDev,
		"enqueue":        cliEnqueue,
		"errors":         cliErrors,
		"exit codes":     cliExitCodes,
		"help":           cliHelp,
		"interrupts":     cliInterrupts,
		"killed command": cliTimeout,
		"killed worker":  cliKilledWorker,
		"life":           cliLife,
		"migrate":        cliMigrate,
		"result":         cliResult,
		"sql":            cliSQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bin)
		})
	}
}

// site is where commands run: the command, and the database in its environment.
type site struct {
	bin string
	env []string
}

// onURL names the database, or no database when the URL is empty.
func onURL(bin, url string, env ...string) site {
	s := site{bin: bin}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PG") && name != "DATABASE_URL" {
			s.env = append(s.env, entry)
		}
	}
	if pgbin := os.Getenv("PGBIN"); pgbin != "" {
		s.env = append(s.env, "PGBIN="+pgbin)
	}
	if url != "" {
		s.env = append(s.env, "DATABASE_URL="+url)
	}
	s.env = append(s.env, env...)
	return s
}

// onDatabase is a migrated database of the test.
func onDatabase(t *testing.T, bin string) site {
	t.Helper()
	db := pgtest.New(t)
	if mode := os.Getenv(pgtest.ExecModeEnv); mode != "" {
		return onURL(bin, db.URL("default_query_exec_mode", mode))
	}
	return onURL(bin, db.URL())
}

// onDevServer is an embedded development server of the test.
func onDevServer(t *testing.T, bin string) site {
	t.Helper()
	return onURL(bin, "", devserver.DirEnv+"="+devFolder(t))
}

// devFolder is a folder that also the unprivileged account of the server may enter.
func devFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgqueue-cli-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// everySite runs a test on a database that is given, and on the embedded server.
func everySite(t *testing.T, bin string, test func(t *testing.T, s site)) {
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		test(t, onDatabase(t, bin))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		if _, err := devserver.FindPrograms(); err != nil {
			// Such a machine runs the tests on a container. Then the command must say what to install.
			onDevServer(t, bin).fails(t, 1, "", "apt install postgresql", "stats")
			return
		}
		test(t, onDevServer(t, bin))
	})
}

// process is a command that runs.
type process struct {
	cmd            *osexec.Cmd
	stdout, stderr watched
	cancel         context.CancelFunc
}

// watched is an output that grows.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until the output has the text so many times.
func (w *watched) await(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, 30*time.Second, func() bool { return strings.Count(w.String(), text) >= times }, func() string {
		return "the output has no " + text + ":\n" + w.String()
	})
}

func eventually(t *testing.T, limit time.Duration, reached func() bool, otherwise func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise())
		}
	}
}

func (s site) start(t *testing.T, stdin string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	p := &process{cmd: osexec.CommandContext(ctx, s.bin, args...), cancel: cancel}
	p.cmd.Env = s.env
	p.cmd.Stdin = strings.NewReader(stdin)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code, -1 of a process that was killed.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	defer p.cancel()
	err := p.cmd.Wait()
	var exit *osexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", p.cmd.Args, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run returns the standard output of a command that must end well.
func (s site) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	p := s.start(t, stdin, args...)
	if code := p.wait(t); code != 0 {
		t.Fatalf("pgqueue %s: exit code %d\n%s%s", strings.Join(args, " "), code, &p.stdout, &p.stderr)
	}
	return p.stdout.String()
}

// fails runs a command that must end with the code and a message in plain words, and returns its standard output.
func (s site) fails(t *testing.T, code int, stdin, message string, args ...string) string {
	t.Helper()
	p := s.start(t, stdin, args...)
	got, text := p.wait(t), p.stderr.String()
	if got != code || !strings.Contains(text, message) {
		t.Errorf("pgqueue %s: exit code %d, want %d and %q in:\n%s", strings.Join(args, " "), got, code, message, text)
	}
	for _, dump := range []string{"SQLSTATE", "goroutine", "panic", "&{", "0x"} {
		if strings.Contains(text, dump) {
			t.Errorf("pgqueue %s: the error has %q: %s", strings.Join(args, " "), dump, text)
		}
	}
	return p.stdout.String()
}

// lines splits an output into lines of words.
func lines(text string) [][]string {
	var split [][]string
	for line := range strings.Lines(text) {
		split = append(split, strings.Fields(line))
	}
	return split
}

// created enqueues a task and returns its id.
func (s site) created(t *testing.T, args ...string) string {
	t.Helper()
	words := lines(s.run(t, "", append([]string{"enqueue"}, args...)...))
	if len(words) != 1 || len(words[0]) != 2 || words[0][0] != "CREATED" {
		t.Fatalf("enqueue prints %q, want CREATED and an id", words)
	}
	return words[0][1]
}

// shownTask is what the tests need of pgqueue task --json.
type shownTask struct {
	Status   string
	Queue    string
	Attempt  int
	Payload  json.RawMessage
	Metadata json.RawMessage
	Result   json.RawMessage
	Attempts []struct {
		Outcome    string
		FinishedAt time.Time `json:"finished_at"`
		Error      *string
	}
}

func (s site) task(t *testing.T, id string) (shown shownTask) {
	t.Helper()
	decode(t, s.run(t, "", "task", "--json", id), &shown)
	return shown
}

// count returns the number of tasks in a state, over all queues.
func (s site) count(t *testing.T, state string) (total float64) {
	t.Helper()
	for line := range strings.Lines(s.run(t, "", "stats", "--json")) {
		var stats map[string]any
		decode(t, line, &stats)
		total += stats[state].(float64)
	}
	return total
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
}
