package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/sql"
)

// keyRules are keys and the rule that each breaks; "" for those that pass.
var keyRules = []struct{ name, key, rule string }{
	// K1, case_C27: 1 to 512 bytes.
	{"empty", "", "empty"},
	{"one byte", "k", ""},
	{"512 ASCII bytes", strings.Repeat("k", 512), ""},
	{"513 ASCII bytes", strings.Repeat("k", 513), "too_long"},
	{"3000 bytes", strings.Repeat("k", 3000), "too_long"},
	{"128 characters of four bytes", strings.Repeat("😀", 128), ""},
	{"128 characters of four bytes and one more byte", strings.Repeat("😀", 128) + "k", "too_long"},
	{"170 characters of three bytes", strings.Repeat("€", 170) + "kk", ""},
	{"171 characters of three bytes", strings.Repeat("€", 171), "too_long"},
	{"256 characters of two bytes", strings.Repeat("é", 256), ""},
	{"257 characters of two bytes", strings.Repeat("é", 257), "too_long"},
	// K2: no control characters.
	{"U+0001", "a\u0001", "control_character"},
	{"tab", "\tb", "control_character"},
	{"line feed", "a\n", "control_character"},
	{"carriage return", "a\rb", "control_character"},
	{"U+001F", "\u001f", "control_character"},
	{"space", " ", ""},
	{"tilde", "~", ""},
	{"U+007F", "a\u007fb", "control_character"},
	{"U+0080", "\u0080", "control_character"},
	{"U+0085", "a\u0085b", "control_character"},
	{"U+009F", "\u009f", "control_character"},
	{"U+00A0", "\u00a0", ""},
	{"U+00AD", "a\u00adb", ""},
	{"U+0600", "\u0600", ""},
	{"U+2028", "a\u2028b", ""},
	{"U+FEFF", "\ufeff", ""},
	{"U+FFFE", "\ufffe", ""},
	{"U+10FFFF", "\U0010ffff", ""},
	{"quotes and backslashes", `"'\{}[]`, ""},
}

// distinctKeys look alike to somebody: K3, case_C28.
var distinctKeys = []string{
	"a", "A", "a ", " a", "a  ", "\u00a0a", "á", "a\u0301", "Á", "à", "ａ", "а", // the last two: full width, Cyrillic
	"ss", "ß", "ẞ", "fi", "ﬁ", "i", "I", "ı", "İ", "1", "01", "1.0", "²", "2", "a\u200b", "a\u00ad", "aa", "null", `"a"`, `\a`, "%", "_",
}

func withKey(e *env, kind, key string) request {
	if kind == "window_key" {
		return e.window(key, time.Hour)
	}
	return e.active(key)
}

func checkKeyRules(t *testing.T, e *env) {
	for _, kind := range []string{"active_key", "window_key"} {
		for _, rule := range keyRules {
			t.Run("K1_K2_K4/"+kind+"/"+rule.name, func(t *testing.T) {
				e := e.scope()
				r := withKey(e, kind, rule.key)
				if rule.rule == "" {
					id := e.create(t, r)
					wantReused(t, e.enqueue(t, r), id, map[string]gen.DuplicateMatch{
						"active_key": gen.DuplicateMatchActive, "window_key": gen.DuplicateMatchWindow}[kind])
					return
				}
				_, err := gen.EnqueueUnique(t.Context(), e.pool, r)
				failed := wantError(t, err, "PQ006")
				got := tryEnqueue(t, e.pool, r)
				wantRefusal(t, got, "PQ006")
				for _, detail := range [][]byte{[]byte(failed.Detail), got.ErrorDetail} {
					if member(t, detail, "rule") != rule.rule || member(t, detail, "key_kind") != kind {
						t.Errorf("the detail is %s, want rule %s", detail, rule.rule)
					}
				}
				for _, message := range []string{failed.Message, *got.ErrorMessage} {
					// A message ends in logs: it names the character and does not repeat it.
					if !strings.HasPrefix(message, "invalid_key: "+kind+" ") || strings.ContainsFunc(message, unicode.IsControl) ||
						strings.HasPrefix(rule.name, "U+") && !strings.HasSuffix(message, rule.name) {
						t.Errorf("the message is %q", message)
					}
				}
				if n := e.rows(t); n != 0 {
					t.Errorf("%d rows were written", n)
				}
			})
		}
		t.Run("K3/"+kind, func(t *testing.T) {
			e := e.scope()
			holders := map[uuid.UUID]string{}
			for _, key := range distinctKeys {
				id := e.create(t, withKey(e, kind, key))
				if other, twice := holders[id]; twice {
					t.Errorf("%q and %q are one key", key, other)
				}
				holders[id] = key
			}
			for id, key := range holders {
				if got := e.enqueue(t, withKey(e, kind, key)); *got.TaskID != id {
					t.Errorf("%q finds %s, want %s", key, got.TaskID, id)
				}
			}
		})
	}
}

// K1, K2, K3, K4.
func TestK_Rules(t *testing.T) {
	t.Parallel()
	checkKeyRules(t, newEnv(t))
}

// K3: the same in a database of another collation and character classification.
func TestK3_OtherCollation(t *testing.T) {
	t.Parallel()
	checkKeyRules(t, newCollatedEnv(t))
}

// newCollatedEnv makes a database with the first of these locales that the server has.
func newCollatedEnv(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	name := e.db.Name + "_collated"
	var failures []error
	for _, locale := range []string{
		"locale_provider icu icu_locale 'de-u-ks-level2' locale 'C'",
		"locale 'en_US.UTF-8'",
		"locale 'C.UTF-8'",
	} {
		_, err := e.pool.Exec(t.Context(), fmt.Sprintf("create database %s template template0 encoding 'UTF8' %s", name, locale))
		if err != nil {
			failures = append(failures, err)
			continue
		}
		t.Cleanup(func() {
			if _, err := e.pool.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
				t.Error(err)
			}
		})
		address, err := url.Parse(e.db.URL())
		if err != nil {
			t.Fatal(err)
		}
		address.Path = "/" + name
		other := *e
		if other.pool, err = pgxpool.New(t.Context(), address.String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.pool.Close)
		conn, err := pgx.Connect(t.Context(), address.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(sql.Migrate(t.Context(), conn), conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		return &other
	}
	t.Fatalf("no other locale: %v", errors.Join(failures...))
	return nil
}

// K2: what is no valid Unicode never reaches the function, and nothing is written.
func TestK2_InvalidUnicode(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, key := range map[string]string{
		"NUL": "a\x00b", "stray byte": "a\xff", "cut off": "a\xc3", "overlong": "\xc0\x80", "lone surrogate": "\xed\xa0\x80",
		"beyond U+10FFFF": "\xf4\x90\x80\x80",
	} {
		for _, kind := range []string{"active_key", "window_key"} {
			if name != "NUL" && utf8.ValidString(key) {
				t.Fatalf("%s is valid", name)
			}
			conn := e.session(t, readCommitted)
			_, err := gen.EnqueueUnique(t.Context(), conn, withKey(e, kind, key))
			wantNoUnicode(t, err)
		}
	}
	if n := e.rows(t); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}
