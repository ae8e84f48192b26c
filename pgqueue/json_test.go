package pgqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// P1, case_C60: the client refuses what PostgreSQL's jsonb cannot hold, and says what it is. That the database agrees is shown in
// integration/fuzz_payload_test.go.
func TestP1_Case_C60_CheckJSON(t *testing.T) {
	for text, want := range map[string]string{
		`null`: "", `{"a": [1, 1.0, -0, 1e2, "é 😀", "\u00e9", "\ud83d\ude00", "\\u0000", "\"\\ud800"]}`: "",
		`1e131071`: "", `-0.00001e131076`: "", `0e1000000`: "", `1e-16383`: "", `"1e999999"`: "", `{"1e999999": 1}`: "",
		``: "not valid JSON", `{`: "not valid JSON", `01`: "not valid JSON", `1 2`: "not valid JSON", "\"\x01\"": "not valid JSON",
		`"\u0000"`: `\u0000`, `{"a\u0000": 1}`: `\u0000`, `"\\\u0000"`: `\u0000`,
		`"\ud83d"`: `the lone surrogate \ud83d`, `"\ud83dx"`: `the lone surrogate \ud83d`, `"\ud83d\ud83d\ude00"`: `the lone surrogate \ud83d`,
		`"\ude00"`: `the lone surrogate \ude00`, `"\uD83D\u0041"`: `the lone surrogate \uD83D`,
		"\"\xff\"": "not valid UTF-8", "\"\xed\xa0\x80\"": "not valid UTF-8",
		`1e131072`: "the number 1e131072", `[0, -123456E+131067]`: "the number -123456E+131067", `1e-16384`: "the number 1e-16384",
		`0e-16384`: "the number 0e-16384", `1e99999999999999999999`: "the number 1e99999999999999999999",
		strings.Repeat("9", 131073): "the number 999", `0.` + strings.Repeat("0", 16384): "the number 0.000",
	} {
		err := checkJSON("payload", json.RawMessage(text))
		if want == "" && err == nil {
			continue
		}
		if want == "" || !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "payload") {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.100s: the message has %d bytes", text, len(err.Error()))
		}
	}
	if err := checkJSON("payload", nil); err != nil {
		t.Error(err)
	}
}

var replacement = regexp.MustCompile(`(?i)\x{fffd}|\\ufffd`)

// P1: any bytes: checkJSON agrees with what Go's own decoder finds in the strings.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a": "\ud83d\ude00"}`, `"\ud83d"`, `"\\ud83d"`, `"\u0000"`, `[1e5, -0.1]`, `"\\\u0000"`, "\xff", `"\"`, `"\ud83d\u`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := checkJSON("payload", text)
		if !utf8.Valid(text) || !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q is no JSON and was accepted", text)
			}
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		bad, large := false, false
		for {
			token, tokenErr := decoder.Token()
			if errors.Is(tokenErr, io.EOF) {
				break
			}
			if tokenErr != nil {
				t.Fatal(tokenErr)
			}
			switch v := token.(type) {
			case string:
				// The decoder makes U+FFFD of a lone surrogate.
				bad = bad || strings.ContainsRune(v, 0) || strings.ContainsRune(v, utf8.RuneError) && !replacement.Match(text)
			case json.Number:
				large = large || len(v) > 1000 || strings.ContainsAny(string(v), "eE")
			}
		}
		if replacement.Match(text) || large {
			return // the decoder does not tell
		}
		if bad != (err != nil) {
			t.Fatalf("%q: %v, the decoder finds bad strings: %v", text, err, bad)
		}
	})
}

// L4, case_C60: whatever a handler says can be stored.
func FuzzCleanText(f *testing.F) {
	for _, seed := range []string{"plain", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "é\x00\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := cleanText(s)
		if !utf8.ValidString(got) || hasNUL(got) {
			t.Fatalf("%q becomes %q", s, got)
		}
		if utf8.ValidString(s) && !hasNUL(s) && got != s {
			t.Fatalf("%q was changed to %q", s, got)
		}
	})
}
