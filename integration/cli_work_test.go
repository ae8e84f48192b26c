package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cliKilledWorker kills a worker the hard way: its tasks are back within its lease and one look of a reaper, and none is lost.
func cliKilledWorker(t *testing.T, bin string) {
	everySite(t, bin, func(t *testing.T, s site) {
		const tasks, running = 12, 3
		const lease, reap = 2 * time.Second, 500 * time.Millisecond
		input := ""
		for n := range tasks {
			input += fmt.Sprintf(`{"task":"t","payload":%d}`+"\n", n)
		}
		ids := lines(s.run(t, input, "enqueue", "--unique", "--ndjson", "-"))

		// The shell waits for a child, so that more than the shell itself must go.
		doomed := s.start(t, "", "work", "--exec", "sleep 300 & echo started $! $$; wait",
			"--concurrency", strconv.Itoa(running), "--lease", lease.String(), "--reap", "1h")
		doomed.stdout.await(t, "started", running)
		doomed.signal(t, syscall.SIGKILL)
		killed := time.Now()
		if code := doomed.wait(t); code != -1 {
			t.Fatalf("the killed worker has exit code %d", code)
		}
		for _, words := range lines(doomed.stdout.String()) {
			for _, pid := range words[1:] {
				awaitEnd(t, pid)
			}
		}

		rescuer := s.start(t, "", "work", "--exec", "cat >/dev/null", "--concurrency", "3", "--lease", lease.String(), "--reap", reap.String())
		eventually(t, 30*time.Second, func() bool { return s.count(t, "successful") == tasks }, func() string {
			return fmt.Sprintf("%v of %d tasks are SUCCESSFUL\n%s", s.count(t, "successful"), tasks, &rescuer.stderr)
		})
		rescuer.signal(t, syscall.SIGTERM)
		if code := rescuer.wait(t); code != 0 {
			t.Errorf("the rescuer has exit code %d\n%s", code, &rescuer.stderr)
		}

		lost := 0
		for _, id := range ids {
			task := s.task(t, id[1])
			for _, attempt := range task.Attempts {
				// The reaper's interval has a jitter of a tenth, and the machine may be busy.
				if back := attempt.FinishedAt.Sub(killed); attempt.Outcome != "LOST" || back > lease+reap*11/10+2*time.Second {
					t.Errorf("task %s: attempt %s, back after %s", id[1], attempt.Outcome, back)
				}
				lost++
			}
		}
		if lost != running {
			t.Errorf("%d attempts were lost, want %d", lost, running)
		}
	})
}

// awaitEnd waits until a process is gone, or dead and not yet collected by its new parent.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() bool {
		if syscall.Kill(n, 0) != nil {
			return true
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && strings.Contains(string(stat), ") Z ")
	}, func() string { return "process " + pid + " outlives its worker" })
}

// cliInterrupts: the first signal lets what runs end, the second gives it back.
func cliInterrupts(t *testing.T, bin string) {
	everySite(t, bin, func(t *testing.T, s site) {
		gate := filepath.Join(t.TempDir(), "gate")
		id := s.created(t, "t", "--unique")
		w := s.start(t, "", "work", "--exec", "echo started; while [ ! -e '"+gate+"' ]; do sleep 0.05; done; echo finished")
		w.stdout.await(t, "started", 1)
		waiting := s.created(t, "t2", "--unique")
		w.signal(t, syscall.SIGTERM)
		w.stderr.await(t, "draining", 1)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := w.wait(t); code != 0 || !strings.Contains(w.stdout.String(), "finished") {
			t.Errorf("a drained worker has exit code %d\n%s%s", code, &w.stdout, &w.stderr)
		}
		if task := s.task(t, id); task.Status != "SUCCESSFUL" {
			t.Errorf("the task that ran is %s", task.Status)
		}
		if task := s.task(t, waiting); task.Status != "READY" || task.Attempt != 0 {
			t.Errorf("the task that waited is %s in attempt %d", task.Status, task.Attempt)
		}

		w = s.start(t, "", "work", "--exec", "sleep 300 & echo started $! $$; wait")
		w.stdout.await(t, "started", 1)
		w.signal(t, os.Interrupt)
		w.stderr.await(t, "draining", 1)
		w.signal(t, os.Interrupt)
		if code := w.wait(t); code != 1 || !strings.Contains(w.stderr.String(), "1 command broken off") {
			t.Errorf("a worker that breaks off has exit code %d\n%s", code, &w.stderr)
		}
		for _, pid := range lines(w.stdout.String())[0][1:] {
			awaitEnd(t, pid)
		}
		if task := s.task(t, waiting); task.Status != "READY" || task.Attempt != 0 || len(task.Attempts) != 0 {
			t.Errorf("the task that was broken off is %s in attempt %d", task.Status, task.Attempt)
		}
	})
}

// cliExitCodes: what a command's exit code does to its task.
func cliExitCodes(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	for i, c := range []struct {
		command, attempts     string
		status, outcome, text string
	}{
		{"exit 0", "5", "SUCCESSFUL", "", ""},
		{`printf 'one\n\033[31mtwo\033[0m\a \377\n' >&2; exit 3`, "5", "READY", "FAILED", "exit status 3: one\ntwo \ufffd"},
		{"exit 75", "5", "READY", "FAILED", "exit status 75"},
		{"echo no >&2; exit 3", "1", "FAILED", "FAILED", "exit status 3: no"},
		{"echo never >&2; exit 100", "5", "DISCARDED", "DISCARDED", "discard: exit status 100: never"},
		{"kill -9 $$", "5", "READY", "FAILED", "signal: killed"},
		{`head -c 100000 /dev/zero | tr '\0' x >&2; echo end >&2; exit 1`, "5", "READY", "FAILED", "xxxend"},
	} {
		queue := fmt.Sprint("q", i)
		id := s.created(t, "t", "--queue", queue, "--max-attempts", c.attempts, "--backoff", "1h")
		s.run(t, "", "work", "--queue", queue, "--exec", c.command, "--drain")
		task := s.task(t, id)
		outcome, text := "", ""
		if len(task.Attempts) == 1 {
			outcome, text = task.Attempts[0].Outcome, *task.Attempts[0].Error
		}
		if task.Status != c.status || outcome != c.outcome || !strings.HasSuffix(text, c.text) || len(text) > 10000 {
			t.Errorf("%s: the task is %s, its attempt %s with error %.200q", c.command, task.Status, outcome, text)
		}
	}
}

// cliTimeout: a command that does not hear SIGTERM is killed, with what it has started.
func cliTimeout(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	id := s.created(t, "t", "--timeout", "200ms", "--max-attempts", "1")
	w := s.start(t, "", "work", "--drain", "--exec", "trap '' TERM; sleep 300 & echo started $! $$; while :; do wait; done")
	if code := w.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, &w.stderr)
	}
	for _, pid := range lines(w.stdout.String())[0][1:] {
		awaitEnd(t, pid)
	}
	task := s.task(t, id)
	if task.Status != "FAILED" || len(task.Attempts) != 1 || !strings.Contains(*task.Attempts[0].Error, "timed out") {
		t.Errorf("the task is %+v", task)
	}
}

// cliResult: what a command gets, and what is kept of its output.
func cliResult(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	id := s.created(t, "t", "--payload", `{"n":1.50}`, "--metadata", `{"m":"é"}`, "--queue", "q", "--max-attempts", "4")
	s.run(t, "", "work", "--queue", "other", "--queue", "q", "--drain", "--result", "--exec",
		`printf '{"payload":%s,"metadata":%s,"env":"%s"}' "$(cat)" "$PGQUEUE_METADATA" `+
			`"$PGQUEUE_TASK_ID $PGQUEUE_TASK_NAME $PGQUEUE_QUEUE $PGQUEUE_ATTEMPT $PGQUEUE_MAX_ATTEMPTS $PGQUEUE_LEASE_NUMBER"`)
	var result struct {
		Payload  struct{ N json.Number }
		Metadata map[string]string
		Env      string
	}
	decode(t, string(s.task(t, id).Result), &result)
	if result.Payload.N != "1.50" || result.Metadata["m"] != "é" || result.Env != id+" t q 1 4 1" {
		t.Errorf("the command saw %+v", result)
	}

	id = s.created(t, "t")
	w := s.start(t, "", "work", "--drain", "--result", "--exec", "echo no json")
	if code := w.wait(t); code != 0 || !strings.Contains(w.stderr.String(), "stdout is not JSON") {
		t.Errorf("exit code %d\n%s", code, &w.stderr)
	}
	if task := s.task(t, id); task.Status != "SUCCESSFUL" || string(task.Result) != "null" {
		t.Errorf("the task is %s with result %s", task.Status, task.Result)
	}

	s.created(t, "t")
	out := lines(s.run(t, "", "work", "--drain", "--json", "--exec", "echo said"))
	if len(out) != 2 || !strings.Contains(out[0][0], `"outcome":"completed"`) || !strings.Contains(out[1][0], `"completed":1`) {
		t.Errorf("as JSON the work is %q", out)
	}
}
