package integration_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/gen"
)

// B2: what is no batch at all is refused as a whole, with a message that says where the mistake is, before anything is written;
// also with continue_on_conflict, which is about tasks that meet others.
func TestB2_BadInput(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for items, want := range map[string]string{
		`{}`:                              "items must be a JSON array of objects, it is object",
		`"[]"`:                            "items must be a JSON array of objects, it is string",
		`null`:                            "items must be a JSON array of objects, it is null",
		`[{"task_name": "a"}, 1]`:         "item 2 is not an object",
		`[[]]`:                            "item 1 is not an object",
		`[null]`:                          "item 1 is not an object",
		`[{"task_name": "a", "que": 1}]`:  `item 1 has an unknown member "que"`,
		`[{"": 0}]`:                       `item 1 has an unknown member ""`,
		`[{"task_name": 1}]`:              "item 1: task_name is 1, it must be a JSON string",
		`[{}, {"active_key": 42}]`:        "item 2: active_key is 42, it must be a JSON string",
		`[{"active_key": {"a": 1}}]`:      `item 1: active_key is {"a": 1}, it must be a JSON string`,
		`[{"queue": true}]`:               "item 1: queue is true, it must be a JSON string",
		`[{"priority": "high"}]`:          `item 1: priority is "high", it must be a whole number`,
		`[{"priority": 1.5}]`:             "item 1: priority is 1.5, it must be a whole number",
		`[{"max_attempts": 99999999999}]`: "item 1: max_attempts is 99999999999, it must be a whole number",
		`[{"delay": 5}]`:                  "item 1: delay is 5, it must be a JSON string",
		`[{"resource_keys": "r"}]`:        `item 1: resource_keys is "r", it must be a JSON array`,
		`[{"unique": "yes"}]`:             `item 1: unique is "yes", it must be a JSON boolean`,
		`[{"unique": 1}]`:                 "item 1: unique is 1, it must be a JSON boolean",
	} {
		for _, onConflict := range []bool{false, true} {
			_, err := gen.EnqueueMany(t.Context(), e.pool, gen.EnqueueManyParams{Items: json.RawMessage(items), ContinueOnConflict: &onConflict, Namespace: &e.ns})
			if failed := wantError(t, err, "22023"); failed.Message != want {
				t.Errorf("%s: the message is %q, want %q", items, failed.Message, want)
			}
		}
	}
	for items, state := range map[string]string{
		`[{"task_name": "a", "delay": "soon"}]`:     "22007",
		`[{"task_name": "a", "run_after": "soon"}]`: "22007",
	} {
		_, err := gen.EnqueueMany(t.Context(), e.pool, gen.EnqueueManyParams{Items: json.RawMessage(items), Namespace: &e.ns})
		if failed := wantError(t, err, state); !strings.Contains(failed.Message, "soon") {
			t.Errorf("%s: the message is %q", items, failed.Message)
		}
	}
	_, err := e.pool.Exec(t.Context(), "select pgqueue.enqueue_many(null)")
	if failed := wantError(t, err, "22023"); !strings.Contains(failed.Message, "it is NULL") {
		t.Errorf("the message is %q", failed.Message)
	}
	long := strings.Repeat("n", 49)
	_, err = gen.EnqueueMany(t.Context(), e.pool, gen.EnqueueManyParams{Items: json.RawMessage(`[]`), Namespace: &long})
	wantError(t, err, "22023")
	if n := value[int](t, e.pool, "select count(*) from pgqueue.task"); n != 0 {
		t.Errorf("%d tasks were written", n)
	}

	// What is right: nothing at all, and null for what is left out.
	if got := e.enqueueMany(t, e.pool, []batchItem{}); len(got) != 0 {
		t.Errorf("an empty batch answers %s", show(got))
	}
	got, err := gen.EnqueueMany(t.Context(), e.pool, gen.EnqueueManyParams{Namespace: &e.ns, Items: json.RawMessage(`[{"task_name": "a", "payload": null,
		"queue": null, "priority": null, "run_after": null, "delay": null, "active_key": null, "window_key": null, "window_length": null, "max_attempts": null,
		"backoff": null, "max_backoff": null, "timeout": null, "lease": null, "resource_keys": null, "metadata": null, "unique": null}]`)})
	if err != nil || len(got) != 1 {
		t.Fatalf("%s, %v", show(got), err)
	}
	wantCreated(t, got[0])
}

var buffers = regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?(?: dirtied=(\d+))?`)

// B5: 10,000 items work in one call. The work grows with the number of items and not faster, on both paths, for new keys and for
// duplicates: judged by the pages that a call touches, which are the same on every machine.
func TestB5_GrowsLinearly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	conn := e.session(t, readCommitted)
	const call = `select count(*) from pgqueue.enqueue_many((
		select jsonb_agg(jsonb_build_object('task_name', 'send', 'active_key', 'k' || g, 'payload', g) %s)
		from generate_series(1, %d) g), namespace => '%s')`
	pages := func(path string, ns string, n int) float64 {
		t.Helper()
		window := ""
		if path == "exact" {
			window = `|| case when g = 1 then '{"window_key": "w", "window_length": "1 hour"}' else '{}'::jsonb end`
		}
		rows, err := conn.Query(t.Context(), "explain (analyze, buffers, costs off, timing off, summary off) "+fmt.Sprintf(call, window, n, ns))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			if found := buffers.FindStringSubmatch(string(rows.RawValues()[0])); found != nil {
				total := 0
				for _, part := range found[1:3] {
					n, _ := strconv.Atoi(part)
					total += n
				}
				return float64(total)
			}
		}
		t.Fatalf("the plan has no buffers: %v", rows.Err())
		return 0
	}
	for _, path := range []string{"set-based", "exact"} {
		first := map[string]float64{}
		for _, n := range []int{1000, 2000, 4000, 8000} {
			ns := e.scope().ns
			for _, keys := range []string{"new", "held"} {
				perItem := pages(path, ns, n) / float64(n)
				t.Logf("%s, %s keys, %d items: %.1f pages for each", path, keys, n, perItem)
				if first[keys] == 0 {
					first[keys] = perItem
				} else if perItem > 1.5*first[keys] {
					t.Errorf("%s, %s keys: %.1f pages for each of %d items, %.1f of 1000", path, keys, perItem, n, first[keys])
				}
			}
		}
	}

	e = e.scope()
	const n = 10000
	all := make([]batchItem, n)
	for i := range all {
		all[i] = batchItem{request: e.active(fmt.Sprint(i % (n - 1)))}
		all[i].Payload = json.RawMessage(fmt.Sprintf(`{"n": %d}`, i))
	}
	got := e.enqueueMany(t, e.pool, all)
	for _, r := range got[:n-1] {
		wantCreated(t, r)
	}
	wantReused(t, got[n-1], *got[0].TaskID, gen.DuplicateMatchActive)
	if stored := e.tasks(t); stored != n-1 {
		t.Errorf("%d tasks are stored", stored)
	}
	checkInvariants(t, e.pool)
}
