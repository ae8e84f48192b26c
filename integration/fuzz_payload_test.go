package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// refusesJSON asks the database itself whether a text is JSON that it can hold.
func (h *fuzzHouse) refusesJSON(t *testing.T, text string) bool {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return true // it never gets there
	}
	_, err := h.pool.Exec(t.Context(), "select $1::text::jsonb", text)
	return err != nil
}

// P1, P2, case_C60: any bytes as a payload, and as metadata: what the client accepts the database stores, digit for digit; what the client refuses
// the database refuses too, or is too large.
func FuzzPayload(f *testing.F) {
	h := newFuzzHouse(f)
	for _, seed := range []string{
		`null`, `1`, `1.0`, `-0`, `-0.0`, `1e2`, `1E+2`, `1e-2`, `12345678901234567890`, `0.1000`, `true`, `""`, `[]`, `{}`, ` [ 1 , 2 ] `,
		`{"b": 1, "a": 2, "b": 3}`, `{"é": "😀"}`, `"\u00e9\ud83d\ude00"`, `"\u0000"`, `{"\u0000": 1}`, `"\\u0000"`, `"\ud800"`, `"\ud83d\ud83d"`, `"\udc00"`,
		`"\ud83d\u0041"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xed\xa0\x80\"", `1e131071`, `1e131072`, `-1e131072`, `1e-16383`, `1e-16384`,
		`0e131072`, `0e-16384`, `123456e131066`, `123456e131067`, `0.00001e131077`, `[1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071]`,
		`1e1073741824`, `1e-1073741824`, `1e99999999999999999999`, `{"n": [0, 1e200000]}`, `"1e200000"`, `01`, `+1`, `.5`, `1.`, `NaN`, `Infinity`, `'a'`, `{a: 1}`,
		`[1,]`, `{"a":1,}`, `// x`, ``, ` `, "\ufeff1", "1\n", "\v1", `"\x41"`, `"\'"`, `nul`, `"a`, `[`, `{"a"}`, `"\u12"`, "\u00a01", `1 2`,
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000),
		strings.Repeat("9", 131072), strings.Repeat("9", 131073), `"` + strings.Repeat("x", 1<<20-2) + `"`, `"` + strings.Repeat("x", 1<<20-1) + `"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 {
			return // for the client, no payload
		}
		c, e := h.client(t)
		r := pgqueue.Request{TaskName: "send", Payload: text, Unique: true}
		got, err := h.inTransaction(t, c, r)
		all, batchErr := c.EnqueueMany(t.Context(), []pgqueue.Request{r}, pgqueue.BatchOptions{})
		if (err == nil) != (batchErr == nil) {
			t.Fatalf("%.200q: alone %v, in a batch %v", text, err, batchErr)
		}
		if err != nil {
			if !errors.Is(err, pgqueue.ErrInvalidArgument) || !errors.Is(batchErr, pgqueue.ErrInvalidArgument) {
				t.Errorf("%.200q: %v, %v, want ErrInvalidArgument", text, err, batchErr)
			}
			if n := e.rows(t); n != 0 {
				t.Errorf("%.200q: %d rows were written", text, n)
			}
			if h.refusesJSON(t, string(text)) {
				return
			}
			if size := value[int](t, h.pool, "select octet_length($1::text::jsonb::text)", string(text)); size > 1<<20 {
				if !strings.Contains(err.Error(), fmt.Sprintf("payload has %d bytes, at most 1048576 are allowed", size)) {
					t.Errorf("%.200q: the message is %.300s", text, err)
				}
			} else if json.Valid(text) {
				t.Errorf("%.200q: %.300s, and the database would have taken it", text, err)
			} else if depth := strings.Count(string(text), "[") + strings.Count(string(text), "{"); depth <= 10000 {
				t.Errorf("%.200q: no JSON for Go, and JSON for the database", text)
			}
			return
		}
		if all[0].TaskID != got.TaskID {
			t.Errorf("%.200q: the batch made another task", text)
		}
		same := value[bool](t, h.pool, "select payload::text = $2::text::jsonb::text from pgqueue.task where namespace = $1::text", e.ns, string(text))
		if !same {
			t.Errorf("%.200q is stored as %.200s", text, e.task(t, got.TaskID).Payload)
		}
		// What a client reads is JSON again, and the same one.
		if read := e.task(t, got.TaskID).Payload; !json.Valid(read) {
			t.Errorf("%.200q is read as %.200s", text, read)
		} else if again, err := c.Enqueue(t.Context(), pgqueue.Request{TaskName: "send", Payload: read, Unique: true}); err != nil || again.TaskID != got.TaskID {
			t.Errorf("%.200q, read as %.200s, is another task: %+v, %v", text, read, again, err)
		}
	})
}

// P1: any bytes as metadata of a request with a window key, of which they are a part: stored and compared, or refused.
func FuzzMetadata(f *testing.F) {
	h := newFuzzHouse(f)
	for _, seed := range []string{`null`, `{"a": 1}`, `1.0`, `"\u0000"`, `"\ud800"`, `1e131072`, "\xff", `{`, `{"b": 1, "a": [2]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 {
			return
		}
		c, e := h.client(t)
		r := pgqueue.Request{TaskName: "send", Metadata: text, WindowKey: "w", Window: 1e9}
		got, err := h.inTransaction(t, c, r)
		all, batchErr := c.EnqueueMany(t.Context(), []pgqueue.Request{r}, pgqueue.BatchOptions{})
		if err != nil || batchErr != nil {
			if !errors.Is(err, pgqueue.ErrInvalidArgument) || !errors.Is(batchErr, pgqueue.ErrInvalidArgument) || e.rows(t) != 0 {
				t.Errorf("%.200q: %v, %v, want ErrInvalidArgument", text, err, batchErr)
			}
			if json.Valid(text) && !h.refusesJSON(t, string(text)) {
				t.Errorf("%.200q: %.300s, and the database would have taken it", text, err)
			}
			return
		}
		if all[0].TaskID != got.TaskID {
			t.Errorf("%.200q: the batch made another task", text)
		}
		if !value[bool](t, h.pool, "select metadata::text = $2::text::jsonb::text from pgqueue.task where namespace = $1::text", e.ns, string(text)) {
			t.Errorf("%.200q is stored as %.200s", text, e.task(t, got.TaskID).Metadata)
		}
	})
}
