package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
)

// P1, case_C60: what jsonb cannot hold is refused with the server's own clear error, before anything is written, in payload and
// metadata alike.
func TestP1_WhatJSONBCannotHold(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, test := range map[string]struct{ json, state, says string }{
		"U+0000":                {`{"a": "b\u0000c"}`, "22P05", `\u0000 cannot be converted to text`},
		"U+0000 in a key":       {`{"a\u0000": 1}`, "22P05", `\u0000 cannot be converted to text`},
		"lone high surrogate":   {`"\ud800"`, "22P02", "surrogate"},
		"lone low surrogate":    {`"\udc00x"`, "22P02", "surrogate"},
		"two high surrogates":   {`"\ud83d\ud83d"`, "22P02", "surrogate"},
		"no JSON":               {`{"a": }`, "22P02", "invalid"},
		"raw control character": {"\"a\nb\"", "22P02", "must be escaped"},
		"not a number":          {`NaN`, "22P02", "invalid"},
		"broken UTF-8":          {"\"\xff\"", "22021", ""},
		"raw NUL":               {"\"\x00\"", "22021", ""},
	} {
		t.Run(name, func(t *testing.T) {
			payload, metadata := e.active("k"), e.active("k")
			payload.Payload, metadata.Metadata = json.RawMessage(test.json), json.RawMessage(test.json)
			for _, r := range []request{payload, metadata} {
				_, err := gen.EnqueueUnique(t.Context(), e.pool, r)
				if test.state == "22021" {
					wantNoUnicode(t, err)
					continue
				}
				failed := wantError(t, err, test.state)
				if text := failed.Message + " " + failed.Detail; !strings.Contains(text, test.says) {
					t.Errorf("the error is %s, want %q in it", text, test.says)
				}
			}
		})
	}
	if n := e.rows(t); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	// A pair of surrogates is one character.
	r := e.active("k")
	r.Payload = json.RawMessage(`"\ud83d\ude00"`)
	if got := e.task(t, e.create(t, r)).Payload; string(got) != `"😀"` {
		t.Errorf("the payload is %s", got)
	}
}

// P1: a payload over the configured size is refused, naming both sizes. The size is that of the canonical text.
func TestP1_Size(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if err := gen.DeclareTask(t.Context(), e.pool, gen.DeclareTaskParams{TaskName: "small", MaxPayloadBytes: ptr(100), Namespace: &e.ns}); err != nil {
		t.Fatal(err)
	}
	text := func(bytes int) string { return `"` + strings.Repeat("a", bytes-2) + `"` }
	for name, test := range map[string]struct {
		task, payload string
		size, limit   int // 0: fits
	}{
		"1 MiB":                     {"send", text(1 << 20), 0, 0},
		"1 MiB and a byte":          {"send", text(1<<20 + 1), 1<<20 + 1, 1 << 20},
		"3 MiB":                     {"send", text(3 << 20), 3 << 20, 1 << 20},
		"1 MiB of two byte letters": {"send", `"` + strings.Repeat("é", 1<<19) + `"`, 1<<20 + 2, 1 << 20},
		// Few bytes on the wire and in storage, but 131,073 digits each once they are written out.
		"numbers that grow": {"send", "[" + strings.Repeat("1e131071,", 8) + "1]", 8*131072 + 8*2 + 3, 1 << 20},
		"numbers that fit":  {"send", "[" + strings.Repeat("1e131071,", 7) + "1]", 0, 0},
		"small":             {"small", text(100), 0, 0},
		"small and a byte":  {"small", text(101), 101, 100},
		"spaces added":      {"small", `{"a":[` + strings.Repeat("1,", 30) + `1]}`, 100, 0},
		"spaces too many":   {"small", `{"a":[` + strings.Repeat("1,", 31) + `1]}`, 103, 100},
	} {
		t.Run(name, func(t *testing.T) {
			e := e.scope()
			e.ns = "ns1"
			r := e.active(name)
			r.TaskName, r.Payload = test.task, json.RawMessage(test.payload)
			if test.limit == 0 {
				e.create(t, r)
				return
			}
			before := e.rows(t)
			_, err := gen.EnqueueUnique(t.Context(), e.pool, r)
			failed := wantError(t, err, "22023")
			got := tryEnqueue(t, e.pool, r)
			wantRefusal(t, got, "22023")
			want := fmt.Sprintf("payload has %d bytes, at most %d are allowed", test.size, test.limit)
			if !strings.Contains(failed.Message, want) || !strings.Contains(*got.ErrorMessage, want) {
				t.Errorf("the errors are %s and %s, want %s", failed.Message, *got.ErrorMessage, want)
			}
			if after := e.rows(t); after != before {
				t.Errorf("%d rows were written", after-before)
			}
		})
	}
}

// P2: a handler receives the stored JSON value, and numbers keep their digits.
func TestP2_DigitsAreKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lease := e.lease(t, time.Minute)
	for payload, want := range map[string]string{
		`1.0`:                                 "1.0",
		`[1.10, 0.00, 100]`:                   "[1.10, 0.00, 100]",
		`12345678901234567890`:                "12345678901234567890",
		`-98765432109876543210.0123456789`:    "-98765432109876543210.0123456789",
		`1e2`:                                 "100",
		`0.1234567890123456789012345678901`:   "0.1234567890123456789012345678901",
		`{"b":1,"aa":2,"a":[null,true,"\/"]}`: `{"a": [null, true, "/"], "b": 1, "aa": 2}`,
		`null`:                                "null",
	} {
		r := request{TaskName: "send", Payload: json.RawMessage(payload), Namespace: &e.ns}
		id := e.create(t, r)
		if got := e.task(t, id).Payload; string(got) != want {
			t.Errorf("%s is stored as %s, want %s", payload, got, want)
		}
		if got := e.claim(t, e.pool, lease, id).Payload; string(got) != want {
			t.Errorf("%s reaches the handler as %s, want %s", payload, got, want)
		}
	}
}
