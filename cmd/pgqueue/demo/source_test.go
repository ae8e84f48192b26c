package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestParsePackageLogs(t *testing.T) {
	type parser = func(string) (packageEvent, bool)
	for _, c := range []struct {
		name  string
		parse parser
		line  string
		want  packageEvent // the zero value: not an event
	}{
		{"dpkg status", parseDpkg, "2025-06-24 14:36:25 status half-configured libsystemd0:amd64 252.38-1~deb12u1",
			packageEvent{"2025-06-24 14:36:25", "status half-configured", "libsystemd0:amd64", "252.38-1~deb12u1"}},
		{"dpkg install", parseDpkg, "2025-06-24 14:36:25 install libc6:amd64 <none> 2.36-9",
			packageEvent{"2025-06-24 14:36:25", "install", "libc6:amd64", "<none> 2.36-9"}},
		{"dpkg startup", parseDpkg, "2025-06-24 14:36:25 startup archives unpack", packageEvent{}},
		{"dpkg startup of one word more", parseDpkg, "2025-06-24 14:36:25 startup packages configure x", packageEvent{}},
		{"dpkg conffile", parseDpkg, "2025-06-24 14:36:25 conffile /etc/x keep", packageEvent{}},
		{"dpkg cut off", parseDpkg, "2025-06-24 14:36:25 status installed libc6", packageEvent{}},
		{"dpkg no time", parseDpkg, "2025-13-24 14:36:25 status installed libc6:amd64 2.36-9", packageEvent{}},
		{"empty", parseDpkg, "", packageEvent{}},
		{"pacman", parsePacman, "[2025-06-24T14:36:25+0200] [ALPM] upgraded glibc (2.40-1 -> 2.41-1)",
			packageEvent{"2025-06-24T14:36:25+0200", "upgraded", "glibc", "2.40-1 -> 2.41-1"}},
		{"pacman scriptlet", parsePacman, "[2025-06-24T14:36:25+0200] [ALPM-SCRIPTLET] installed the thing (x)", packageEvent{}},
		{"pacman transaction", parsePacman, "[2025-06-24T14:36:25+0200] [ALPM] transaction started", packageEvent{}},
		{"pacman no version", parsePacman, "[2025-06-24T14:36:25+0200] [ALPM] installed glibc 2.40-1", packageEvent{}},
		{"pacman no bracket", parsePacman, "2025-06-24T14:36:25+0200 [ALPM] installed glibc (2.40-1)", packageEvent{}},
		{"dnf", parseDnf, "2025-06-24T14:36:25+0200 SUBDEBUG Installed: glibc-common-2.40-1.fc41.x86_64",
			packageEvent{"2025-06-24T14:36:25+0200", "installed", "glibc-common", "2.40-1.fc41"}},
		{"dnf start", parseDnf, "2025-06-24T14:36:25+0200 INFO --- logging initialized ---", packageEvent{}},
		{"dnf no release", parseDnf, "2025-06-24T14:36:25+0200 SUBDEBUG Installed: glibc.x86_64", packageEvent{}},
		{"dnf only dashes", parseDnf, "2025-06-24T14:36:25+0200 SUBDEBUG Installed: --", packageEvent{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := c.parse(c.line)
			if ok != (c.want != packageEvent{}) || ok && got != c.want {
				t.Errorf("%q gives %+v, %t; want %+v", c.line, got, ok, c.want)
			}
		})
	}
}

func FuzzParsePackageLogs(f *testing.F) {
	for _, line := range []string{
		"2025-06-24 14:36:25 status installed libc6:amd64 2.36-9", "[2025-06-24T14:36:25+0200] [ALPM] removed a (1)",
		"2025-06-24T14:36:25+0200 SUBDEBUG Erase: a-1-2.noarch", "\x00\xff \t", strings.Repeat("- ", 300),
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, log := range packageLogs {
			if e, ok := log.parse(line); ok && (e.Time == "" || e.Action == "" || e.Package == "") {
				t.Errorf("%s: %q gives %+v", log.path, line, e)
			}
		}
	})
}

func TestMember(t *testing.T) {
	const line = `{"id":7,"text":"a b","none":null,"empty":"","list":[1, 2],"on":true,"a.b":"dotted","a":{"b":"inner","c":{"d":1.0}}}`
	for path, want := range map[string]string{
		"id": "7", "text": "a b", "none": "", "empty": "", "list": "[1,2]", "on": "true", "a.b": "dotted", "a.c.d": "1.0", "a.c": `{"d":1.0}`,
		"missing": "", "id.x": "", "a.x.y": "", "": "", ".": "", "a.": "",
	} {
		if got := member([]byte(line), path); got != want {
			t.Errorf("member %q is %q, want %q", path, got, want)
		}
	}
}

func FuzzParseObject(f *testing.F) {
	for _, line := range []string{`{"id":"a","object":"b"}`, `{"id":{"a":[]},"object":"\u0000"}`, `{"id":"` + strings.Repeat("x", 600) + `"}`, `{"id":"\ud800"}`, `[1]`, `{`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if line == "" {
			return
		}
		e, ok := parseObject([]byte(line), keyFields{active: "object", window: "id"})
		if ok != (line[0] == '{' && json.Valid([]byte(line))) {
			t.Errorf("%q: %t", line, ok)
		}
		for _, key := range []string{e.activeKey, e.windowKey} {
			if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
				t.Errorf("%q gives the key %q", line, key)
			}
		}
	})
}

func TestReadNDJSON(t *testing.T) {
	text := "\ufeff{\"id\":1}\r\n\n  {\"id\":2,\"object\":\"o\"}\nnonsense\n[]\n{\"id\":3}"
	in, err := readNDJSON(strings.NewReader(text), keyFields{}, 0)
	if err != nil || len(in.events) != 3 || in.skipped != 2 {
		t.Fatalf("%d events, %d skipped, %v; want 3, 2", len(in.events), in.skipped, err)
	}
	if e := in.events[1]; e.activeKey != "o" || e.windowKey != "2" || string(e.payload) != `{"id":2,"object":"o"}` {
		t.Errorf("the second event is %+v", e)
	}
	if in, err = readNDJSON(strings.NewReader(text), keyFields{}, 2); err != nil || len(in.events) != 2 {
		t.Errorf("with a limit of 2: %d events, %v", len(in.events), err)
	}
	long := strings.NewReader("{}\n" + strings.Repeat("x", maxLine+1))
	if _, err = readNDJSON(long, keyFields{}, 0); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a line that is too long: %v", err)
	}
}

// The deliveries that come with the program must have all that the demo shows.
func TestWebhooks(t *testing.T) {
	in, err := choose(Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bodies, again, changed := make(map[string]string), 0, 0
	for _, e := range in.events {
		if e.activeKey == "" || e.windowKey == "" {
			t.Fatalf("an event without a key: %s", e.payload)
		}
		body, seen := bodies[e.windowKey]
		switch {
		case !seen:
			bodies[e.windowKey] = string(e.payload)
		case body == string(e.payload):
			again++
		default:
			changed++
		}
	}
	if in.skipped > 0 || len(in.events) < 500 || again < 50 || changed < 10 || len(in.notes) != 1 {
		t.Errorf("%d events, %d skipped, %d redelivered, %d changed, notes %q", len(in.events), in.skipped, again, changed, in.notes)
	}
}

func TestChoose(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := "2025-06-24 14:36:25 status installed libc6:amd64 2.36-9\n"
	missing := packageLog{filepath.Join(dir, "missing"), parseDpkg}
	short := packageLog{write("short", line), parseDpkg}
	long := packageLog{write("long", strings.Repeat(line, fewest+5)+"\xff\n2025-06-24 14:36:26 status installed last 1"), parseDpkg}

	in, err := choose(Options{Limit: fewest}, []packageLog{missing, short, long})
	if err != nil || in.name != long.path || len(in.events) != fewest || len(in.notes) != 1 {
		t.Fatalf("%s, %d events, notes %q, %v", in.name, len(in.events), in.notes, err)
	}
	if last := in.events[fewest-1]; last.activeKey != "pkg:last" || last.windowKey != "2025-06-24 14:36:26 status installed last 1" {
		t.Errorf("the last event is %+v", last)
	}
	if in, err = choose(Options{}, []packageLog{short}); err != nil || in.task != "webhook" || len(in.notes) != 1 {
		t.Errorf("without a long log: %s, notes %q, %v", in.task, in.notes, err)
	}
	if _, err = choose(Options{File: missing.path}, nil); err == nil {
		t.Error("a file that is missing is no error")
	}
	if _, err = choose(Options{File: short.path}, nil); err == nil {
		t.Error("a file without JSON is no error")
	}
}

func TestFitKey(t *testing.T) {
	for _, text := range []string{"", "a\x00", "a\u0085", "\xff", strings.Repeat("x", maxKey+1)} {
		if got := fitKey(text); !strings.HasPrefix(got, "sha256:") {
			t.Errorf("%q fits as %q", text, got)
		}
	}
	for _, text := range []string{"a", strings.Repeat("x", maxKey), "ä 😀"} {
		if got := fitKey(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
