package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cliLife is the life of a task, by hand.
func cliLife(t *testing.T, bin string) {
	everySite(t, bin, func(t *testing.T, s site) {
		const line = `{"task":"t","payload":{"n":1}}` + "\n"
		got := lines(s.run(t, line+line, "enqueue", "--unique", "--ndjson", "-"))
		if len(got) != 2 || got[0][0] != "CREATED" || got[1][0] != "REUSED" || got[0][1] != got[1][1] {
			t.Fatalf("enqueue twice prints %q, want CREATED and REUSED with one id", got)
		}
		s.run(t, "", "work", "--queue", "default", "--exec", "cat >/dev/null", "--drain")
		if task := s.task(t, got[0][1]); task.Status != "SUCCESSFUL" {
			t.Errorf("after work the task is %s", task.Status)
		}
		third := lines(s.run(t, line, "enqueue", "--unique", "--ndjson", "-"))
		if len(third) != 1 || third[0][0] != "CREATED" || third[0][1] == got[0][1] {
			t.Errorf("the third enqueue prints %q, want CREATED with another id than %s", third, got[0][1])
		}
	})
}

// cliEnqueue looks at the flags of a single enqueue.
func cliEnqueue(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	const digits = "12345678901234567890.12345678901234567890"
	id := s.created(t, "a", "--payload", `{"n":`+digits+`}`, "--metadata", `{"m":[1]}`, "--queue", "q", "--priority", "5",
		"--delay", "7d", "--max-attempts", "3", "--backoff", "1m", "--max-backoff", "1h30m", "--timeout", "10s", "--active-key", "k")
	if task := s.task(t, id); task.Status != "READY" || task.Queue != "q" || string(task.Payload) != `{"n": `+digits+`}` && string(task.Payload) != `{"n":`+digits+`}` {
		t.Errorf("the task is %+v", task)
	}
	again := lines(s.run(t, "", "enqueue", "a", "--active-key", "k"))
	if fmt.Sprint(again) != fmt.Sprintf("[[REUSED %s ACTIVE READY]]", id) {
		t.Errorf("the same key prints %q", again)
	}

	request := []string{"enqueue", "b", "--window-key", "r", "--window", "10m", "--payload", "-"}
	first := lines(s.run(t, `[1.0]`, request...))
	second := lines(s.run(t, ` [ 1.0 ] `, request...))
	if second[0][0] != "REUSED" || second[0][1] != first[0][1] || second[0][2] != "WINDOW" {
		t.Errorf("the same request prints %q after %q", second, first)
	}
	s.fails(t, 1, `[1]`, first[0][1], request...)

	var receipt struct {
		Disposition string
		TaskID      string `json:"task_id"`
		Match       string
	}
	decode(t, s.run(t, "", "enqueue", "a", "--active-key", "k", "--json"), &receipt)
	if receipt.Disposition != "REUSED" || receipt.TaskID != id || receipt.Match != "ACTIVE" {
		t.Errorf("as JSON the receipt is %+v", receipt)
	}
}

// cliBatch gives one line of output for each line, in order, whatever is wrong with some.
func cliBatch(t *testing.T, bin string) {
	s := onDatabase(t, bin)
	cases := []struct{ line, want string }{
		{`{"task":"x","payload":{"a":1,"b":2}}`, "CREATED"},
		{` {"payload":{"b":2,"a":1}, "task":"x"} `, "REUSED"},
		{`{"task":"x","payload":`, "not valid JSON: it ends too early"},
		{`{"task":"x","payload":01}`, "not valid JSON"},
		{`["x"]`, "must be a JSON object"},
		{`{"task":"x","prio":1}`, `unknown member "prio"`},
		{`{"Task":"x"}`, `unknown member "Task"`},
		{`{"task":"x","task":"y"}`, `member "task" is there twice`},
		{`{"task":""}`, "task: it is required"},
		{`{"task":7}`, "task: it must be a string"},
		{`{"task":"x","active_key":""}`, "active_key: it is empty"},
		{`{"task":"x","active_key":"\ud800"}`, "active_key: it has a \\u escape"},
		{"{\"task\":\"x\",\"active_key\":\"\xff\"}", "not valid UTF-8"},
		{`{"task":"x","active_key":"a\u0007"}`, "invalid_key"},
		{`{"task":"x","active_key":"\\ufffd\ufffd"}`, "CREATED"},
		{`{"task":"x","active_key":"` + strings.Repeat("k", 513) + `"}`, "invalid_key"},
		{`{"task":"x","payload":"\u0000"}`, "cannot hold"},
		{`{"task":"x","delay":60}`, `delay: it must be a string`},
		{`{"task":"x","delay":"soon"}`, `"soon" is not a time span`},
		{`{"task":"x","max_attempts":0}`, "max_attempts: it is 0"},
		{`{"task":"x","max_attempts":10001}`, "from 1 to 10000"},
		{`{"task":"x","priority":1.5}`, "priority: it must be a whole number"},
		{`{"task":"x","run_after":"2030-01-01"}`, "run_after: it must be a time with its zone"},
		{`{"task":"x","resource_keys":"r"}`, "resource_keys: it must be an array"},
		{`{"task":"x","resource_keys":["r"],"lease":"1m","run_after":"2030-01-01T00:00:00+02:00","queue":"later","priority":-100}`, "CREATED"},
		{`{"task":"x","window_key":"w"}`, "invalid_window"},
		{`{"task":"x","window_key":"w","window":"1d","payload":1}`, "CREATED"},
		{`{"task":"x","window_key":"w","window":"1d","payload":2}`, "uniqueness_conflict"},
		{`{"task":"x","unique":false,"payload":{"a":1,"b":2}}`, "CREATED"},
		{`{"payload":1}`, "task: it is required"},
	}
	input := "\ufeff"
	for _, c := range cases {
		input += c.line + "\r\n\n"
	}
	got := strings.Split(strings.TrimSuffix(s.fails(t, 1, input, "30 lines tried: 5 created, 1 reused, 24 failed", "enqueue", "--unique", "--ndjson", "-"), "\n"), "\n")
	if len(got) != len(cases) {
		t.Fatalf("%d lines of output for %d of input:\n%s", len(got), len(cases), strings.Join(got, "\n"))
	}
	for i, c := range cases {
		where := fmt.Sprintf("line %d:", 2*i+1)
		refused := strings.HasPrefix(got[i], "ERROR "+where) || strings.HasPrefix(got[i], "CONFLICT ") && strings.Contains(got[i], where)
		if !strings.Contains(got[i], c.want) || refused == (c.want == "CREATED" || c.want == "REUSED") {
			t.Errorf("%s\n  prints %q\n  want   %q", c.line, got[i], c.want)
		}
	}

	file := filepath.Join(t.TempDir(), "tasks")
	if err := os.WriteFile(file, []byte("{}\n{\"priority\":500}\n{\"task\":\"z\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := lines(s.fails(t, 1, "", "1 failed", "enqueue", "y", "--ndjson", file, "--fail-fast", "--queue", "other", "--json"))
	if len(out) != 2 {
		t.Errorf("--fail-fast prints %q, want two lines", out)
	}
	var refused struct {
		Line  int
		Error struct{ Code, Message string }
	}
	decode(t, strings.Join(out[1], " "), &refused)
	if refused.Line != 2 || refused.Error.Code != "22023" {
		t.Errorf("the refusal is %+v", refused)
	}
}
