package integration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// refusedEverywhere wants the same refusal from every way, before anything is written.
func (e *env) refusedEverywhere(t *testing.T, r request, code string) gen.Receipt {
	t.Helper()
	rows := e.rows(t)
	for _, way := range ways() {
		if got := refusedWith(way.call(t.Context(), e.pool, r)); got != code {
			t.Errorf("%s %s by %s: %q, want %q", r.TaskName, r.Payload, way.name, got, code)
		}
	}
	if after := e.rows(t); after != rows {
		t.Errorf("%s %s: %d rows were written", r.TaskName, r.Payload, after-rows)
	}
	return tryEnqueue(t, e.pool, r)
}

// D2: a key that is given beside a declared one must be the same, and the window of the same length.
func TestD2_KeyMismatch(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hour := time.Hour
	e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("$.id")})
	e.declare(t, gen.DeclareTaskParams{TaskName: "whole", ActiveKeySelector: ptr("$")})
	e.declare(t, gen.DeclareTaskParams{TaskName: "window", WindowKeySelector: ptr("$.id"), WindowLength: &hour})
	e.declare(t, gen.DeclareTaskParams{TaskName: "required", WindowKeyRequired: ptr(true), WindowLength: &hour})
	whole, err := gen.UniqueKey(t.Context(), e.pool, gen.UniqueKeyParams{TaskName: "whole", Payload: json.RawMessage(`{"id": "a"}`), Namespace: &e.ns})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		task   string
		change func(r *request)
		what   string // that differs, "" for nothing
	}{
		"same active":          {"active", func(r *request) { r.ActiveKey = ptr("a") }, ""},
		"other active":         {"active", func(r *request) { r.ActiveKey = ptr("b") }, "active_key"},
		"active in other case": {"active", func(r *request) { r.ActiveKey = ptr("A") }, "active_key"},
		"same derived":         {"whole", func(r *request) { r.ActiveKey = &whole }, ""},
		"other derived":        {"whole", func(r *request) { r.ActiveKey = ptr("a") }, "active_key"},
		"same window":          {"window", func(r *request) { r.WindowKey, r.WindowLength = ptr("a"), ptr(60*time.Minute) }, ""},
		"window, length alone": {"window", func(r *request) { r.WindowLength = &hour }, ""},
		"window, key alone":    {"window", func(r *request) { r.WindowKey = ptr("a") }, ""},
		"other window":         {"window", func(r *request) { r.WindowKey = ptr("b") }, "window_key"},
		"other length":         {"window", func(r *request) { r.WindowLength = ptr(hour - time.Millisecond) }, "window_length"},
		"required, its length": {"required", func(r *request) { r.WindowKey, r.WindowLength = ptr("x"), &hour }, ""},
		"required, no length":  {"required", func(r *request) { r.WindowKey = ptr("x") }, ""},
		"required, other":      {"required", func(r *request) { r.WindowKey, r.WindowLength = ptr("x"), ptr(2*hour) }, "window_length"},
		"another kind":         {"active", func(r *request) { r.WindowKey, r.WindowLength = ptr("w"), &hour }, ""},
	} {
		r := e.typed(c.task, `{"id": "a"}`)
		c.change(&r)
		if c.what == "" {
			if got := tryEnqueue(t, e.pool, r); got.ErrorCode != nil {
				t.Errorf("%s: %s", name, show(got))
			}
			continue
		}
		var detail struct{ What, Given, Declared string }
		got := e.refusedEverywhere(t, r, "PQ003")
		if err := json.Unmarshal(got.ErrorDetail, &detail); err != nil || detail.What != c.what || detail.Given == detail.Declared ||
			!strings.HasPrefix(*got.ErrorMessage, "uniqueness_key_mismatch: "+c.what) {
			t.Errorf("%s: %s", name, show(got))
		}
	}
}

// D3: a selector that finds nothing or null, that fails, or that finds more than one value: refused before anything is written.
func TestD3_SelectorFindsNoKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for selector, payloads := range map[string]map[string]string{
		`$.id`:                 {`{}`: "PQ004", `{"id": null}`: "PQ004", `null`: "PQ004", `"text"`: "PQ004", `[]`: "PQ004", `[{"id": 1}, {"id": 2}]`: "PQ005"},
		`strict $.id`:          {`{}`: "PQ005", `[]`: "PQ005", `{"id": null}`: "PQ004"},
		`$.ids[*]`:             {`{"ids": []}`: "PQ004", `{"ids": [1, 2]}`: "PQ005", `{"ids": [null]}`: "PQ004", `{"ids": [null, 1]}`: "PQ005"},
		`$.id ? (@ > 1)`:       {`{"id": 1}`: "PQ004", `{"id": "x"}`: "PQ004"},
		`$.a + $.b`:            {`{"a": 1, "b": "x"}`: "PQ005", `{"a": 1}`: "PQ005"},
		`$.a / $.b`:            {`{"a": 1, "b": 0}`: "PQ005"},
		`$.id.double()`:        {`{"id": "x"}`: "PQ005", `{"id": []}`: "PQ004"},
		`$.at.datetime()`:      {`{"at": "never"}`: "PQ005", `{}`: "PQ004"},
		`$.id ? (@ != "none")`: {`{"id": "none"}`: "PQ004"},
	} {
		for _, kind := range []string{"active_key", "window_key"} {
			declared := gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: &selector}
			if kind == "window_key" {
				declared = gen.DeclareTaskParams{TaskName: "send", WindowKeySelector: &selector, WindowLength: ptr(time.Hour)}
			}
			e.declare(t, declared)
			for payload, code := range payloads {
				got := e.refusedEverywhere(t, e.typed("send", payload), code)
				if got.ErrorCode == nil || *got.ErrorCode != code {
					t.Errorf("%s of %s: %s", selector, payload, show(got))
					continue
				}
				if what := member(t, got.ErrorDetail, "what"); what != kind {
					t.Errorf("%s of %s is about %s, want %s", selector, payload, what, kind)
				}
				prefix := map[string]string{"PQ004": "uniqueness_required: ", "PQ005": "key_selector_failed: "}[code]
				if !strings.HasPrefix(*got.ErrorMessage, prefix) || !strings.Contains(*got.ErrorMessage, `task "send"`) {
					t.Errorf("%s of %s: the message is %s", selector, payload, *got.ErrorMessage)
				}
			}
		}
	}
}

// D1: what the selected value makes for a key: a string is the key itself, a number or boolean its JSON text, an object or array the
// SHA-256 of its canonical JSON; case_C31: 1 and 1.0 are two. K1, K2, K4 hold for selected keys too.
func TestD1_K4_SelectedValues(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("$.id")})
	e.declare(t, gen.DeclareTaskParams{TaskName: "window", WindowKeySelector: ptr("$.id"), WindowLength: ptr(time.Hour)})
	hash := func(canonical string) string {
		sum := sha256.Sum256([]byte(canonical))
		return hex.EncodeToString(sum[:])
	}
	for value, want := range map[string]string{
		`"text"`: "text", `"é 😀"`: "é 😀", `" a "`: " a ", `42`: "42", `1.0`: "1.0", `1e2`: "100", `-0.10`: "-0.10",
		`12345678901234567890`: "12345678901234567890", `true`: "true", `false`: "false", `"true"`: "true",
		`{"b": 2, "a": 1}`: hash(`{"a": 1, "b": 2}`), `{}`: hash(`{}`), `[1, [2]]`: "", `"` + strings.Repeat("k", 512) + `"`: strings.Repeat("k", 512),
	} {
		e := e.scope()
		e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("strict $.id")})
		e.declare(t, gen.DeclareTaskParams{TaskName: "window", WindowKeySelector: ptr("strict $.id"), WindowLength: ptr(time.Hour)})
		payload := `{"id": ` + value + `, "x": 1}`
		if value == `[1, [2]]` {
			want = hash(`[1, [2]]`)
		}
		made := tryEnqueue(t, e.pool, e.typed("active", payload))
		task := e.task(t, wantCreated(t, made))
		if task.ActiveKey == nil || *task.ActiveKey != want {
			t.Errorf("%s makes the key %s, want %s", value, show(task.ActiveKey), want)
			continue
		}
		// The explicit key is the same one, whichever way it came.
		given := e.typed("active", payload)
		given.ActiveKey = &want
		wantReused(t, e.enqueue(t, given), task.ID, gen.DuplicateMatchActive)
		wantReused(t, e.enqueue(t, e.typed("active", `{"id": `+value+`}`)), task.ID, gen.DuplicateMatchActive)

		id := e.create(t, e.typed("window", payload))
		stored := e.text(t, "select window_key::text from pgqueue.unique_window where namespace = $1::text")
		if stored != want {
			t.Errorf("%s makes the window key %s, want %s", value, stored, want)
		}
		wantReused(t, e.enqueue(t, e.typed("window", payload)), id, gen.DuplicateMatchWindow)
		wantRefusal(t, tryEnqueue(t, e.pool, e.typed("window", `{"id": `+value+`}`)), "PQ001")
	}
	for value, rule := range map[string]string{`""`: "empty", `"` + strings.Repeat("é", 257) + `"`: "too_long", `"a\nb"`: "control_character"} {
		for _, name := range []string{"active", "window"} {
			got := e.refusedEverywhere(t, e.typed(name, `{"id": `+value+`}`), "PQ006")
			if member(t, got.ErrorDetail, "rule") != rule || member(t, got.ErrorDetail, "key_kind") != name+"_key" {
				t.Errorf("%s of %s: %s", value, name, show(got))
			}
		}
	}
}

// text reads a single text of the namespace.
func (e *env) text(t *testing.T, sql string) string {
	t.Helper()
	return value[string](t, e.pool, sql, e.ns)
}

// D1: what is declared is checked, and a declaration that is refused leaves the old one.
func TestD1_CheckedWhenDeclared(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	hour := time.Hour
	for name, c := range map[string]struct {
		code, message string
		p             gen.DeclareTaskParams
	}{
		"no path":         {"22023", `active_key_selector "id" is no SQL/JSON path`, gen.DeclareTaskParams{ActiveKeySelector: ptr("id")}},
		"empty path":      {"22023", `active_key_selector "" is no SQL/JSON path`, gen.DeclareTaskParams{ActiveKeySelector: ptr("")}},
		"open bracket":    {"22023", `window_key_selector "$.a[" is no SQL/JSON path`, gen.DeclareTaskParams{WindowKeySelector: ptr("$.a["), WindowLength: &hour}},
		"no window":       {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeySelector: ptr("$.id")}},
		"required only":   {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeyRequired: ptr(true)}},
		"no window key":   {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowLength: &hour}},
		"empty window":    {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeyRequired: ptr(true), WindowLength: ptr(time.Duration(0))}},
		"negative window": {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeyRequired: ptr(true), WindowLength: ptr(-hour)}},
		"long window":     {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeyRequired: ptr(true), WindowLength: ptr(3650*24*hour + time.Millisecond)}},
		"fine window":     {"PQ007", "invalid_window", gen.DeclareTaskParams{WindowKeyRequired: ptr(true), WindowLength: ptr(hour + time.Microsecond)}},
		"priority":        {"22023", "priority is 101", gen.DeclareTaskParams{Priority: ptr(101)}},
		"attempts":        {"22023", "max_attempts is 0", gen.DeclareTaskParams{MaxAttempts: ptr(0)}},
		"backoff":         {"22023", "backoff is -", gen.DeclareTaskParams{Backoff: ptr(-hour)}},
		"queue":           {"22023", "queue is empty", gen.DeclareTaskParams{Queue: ptr("")}},
		"payload":         {"22023", "max_payload_bytes is 0", gen.DeclareTaskParams{MaxPayloadBytes: ptr(0)}},
	} {
		c.p.TaskName, c.p.Namespace = "send", &e.ns
		failed := wantError(t, gen.DeclareTask(t.Context(), e.pool, c.p), c.code)
		if !strings.Contains(failed.Message, c.message) {
			t.Errorf("%s: the message is %s", name, failed.Message)
		}
	}
	_, err := e.pool.Exec(t.Context(), "select pgqueue.declare_task(null, namespace => $1::text)", e.ns)
	wantError(t, err, "22004")
	_, err = e.pool.Exec(t.Context(), "select pgqueue.declare_task('send', window_key_required => true, window_length => '1 month', namespace => $1::text)", e.ns)
	wantError(t, err, "PQ007")
	wantRefusal(t, tryEnqueue(t, e.pool, e.typed("send", `{}`)), "PQ004")
	if n := e.text(t, "select count(*)::text from pgqueue.task_type where namespace = $1::text"); n != "1" {
		t.Errorf("%s types are declared", n)
	}
}

// D1: a new declaration counts from the next enqueue on, and touches no task: keys that are held stay held, and are found again when
// the same key is selected again.
func TestD1_Redeclare(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	plain := e.create(t, e.typed("send", `{"id": "a", "no": "b"}`))
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id")})
	byID := e.create(t, e.typed("send", `{"id": "a", "no": "b"}`)) // A20: the plain one has no key
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.no")})
	byNo := e.create(t, e.typed("send", `{"id": "a", "no": "b"}`))
	wantReused(t, e.enqueue(t, e.typed("send", `{"no": "a"}`)), byID, gen.DuplicateMatchActive)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send", ActiveKeySelector: ptr("$.id"), WindowKeySelector: ptr("$.no"), WindowLength: ptr(time.Hour)})
	// C1: the new window key beside the holder.
	wantReused(t, e.enqueue(t, e.typed("send", `{"id": "a", "no": "b"}`)), byID, gen.DuplicateMatchActive)
	wantReused(t, e.enqueue(t, e.typed("send", `{"id": "a", "no": "b"}`)), byID, gen.DuplicateMatchBoth)
	e.declare(t, gen.DeclareTaskParams{TaskName: "send"})
	r := e.typed("send", `{"id": "a", "no": "b"}`)
	for range 2 {
		got, err := gen.Enqueue(t.Context(), e.pool, gen.EnqueueParams(r))
		if err != nil {
			t.Fatal(err)
		}
		wantCreated(t, got)
	}
	r.ActiveKey = ptr("b")
	wantReused(t, e.enqueue(t, r), byNo, gen.DuplicateMatchActive)
	for _, id := range []uuid.UUID{plain, byID, byNo} {
		if task := e.task(t, id); task.Status != gen.TaskStatusReady {
			t.Errorf("task %s is %s", id, task.Status)
		}
	}
	checkInvariants(t, e.pool)
}

// D3: selectors run once per enqueue, at every level, waiting or not, and in batches.
func TestD3_SelectorsRunOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "create sequence public.ran")
	exec(t, e.pool, "alter function pgqueue._select_key rename to _select_key_itself")
	exec(t, e.pool, `create function pgqueue._select_key(a text, b text, c jsonpath, d jsonb, out key text, out refusal pgqueue.receipt)
		returns record language plpgsql as $$
		declare v record; begin
			perform nextval('public.ran');
			v := pgqueue._select_key_itself(a, b, c, d);
			key := v.key; refusal := v.refusal;
		end $$`)
	e.declare(t, gen.DeclareTaskParams{TaskName: "both", ActiveKeySelector: ptr("$.id"), WindowKeySelector: ptr("$.no"), WindowLength: ptr(time.Hour)})
	e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("$.id")})
	ran := func(what string, want int, call func()) {
		t.Helper()
		exec(t, e.pool, "select setval('public.ran', 1)")
		call()
		if got := value[int](t, e.pool, "select last_value - 1 from public.ran"); got != want {
			t.Errorf("%s: selectors ran %d times, want %d", what, got, want)
		}
	}
	for _, level := range levels {
		for _, option := range []pgtest.ConnOption{pgtest.RuntimeParam("lock_timeout", "0"), pgtest.RuntimeParam("lock_timeout", "1min")} {
			e := e.scope()
			e.declare(t, gen.DeclareTaskParams{TaskName: "both", ActiveKeySelector: ptr("$.id"), WindowKeySelector: ptr("$.no"), WindowLength: ptr(time.Hour)})
			e.declare(t, gen.DeclareTaskParams{TaskName: "active", ActiveKeySelector: ptr("$.id")})
			conn := e.session(t, level, option)
			for _, what := range []string{"created", "reused"} {
				ran(level+" both "+what, 2, func() { tryEnqueue(t, conn, e.typed("both", `{"id": 1, "no": 2}`)) })
				ran(level+" active "+what, 1, func() { tryEnqueue(t, conn, e.typed("active", `{"id": 1}`)) })
			}
			batch := []batchItem{{request: e.typed("active", `{"id": 1}`)}, {request: e.typed("active", `{"id": 2}`)}, {request: e.typed("both", `{"id": 2, "no": 3}`)}}
			ran(level+" batch", 4, func() { e.enqueueMany(t, conn, batch) })
		}
	}
}
