package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// request is an enqueue as flags or a line of NDJSON give it. What is nil was not given.
type request struct {
	task, queue                          *string
	payload, metadata                    json.RawMessage
	unique, noWait                       *bool
	activeKey, windowKey                 *string
	window                               *time.Duration
	priority, maxAttempts                *int
	delay                                *time.Duration
	runAfter                             *time.Time
	backoff, maxBackoff, timeout, leased *time.Duration
	resourceKeys                         []string
}

// member is one property of a request: a member of a JSON line, and with dashes a flag.
type member struct {
	name, kind string
	usage      string // of the flag; empty for a member without one
	set        func(r *request, value json.RawMessage) error
}

const (
	kindText = "text"
	kindJSON = "JSON"
	kindInt  = "number"
	kindSpan = "duration"
	kindTime = "time"
	kindBool = ""
)

var members = []member{
	{"task", kindText, "", text(func(r *request) **string { return &r.task })},
	{"payload", kindJSON, "any JSON value, or - to read it from stdin (default null)", raw(func(r *request) *json.RawMessage { return &r.payload })},
	{"unique", kindBool, "be the same task as one that waits or runs with the same name, queue and payload", boolean(func(r *request) **bool { return &r.unique })},
	{"active_key", kindText, "be the same task as one that waits or runs with this key", text(func(r *request) **string { return &r.activeKey })},
	{"window_key", kindText, "be the same request as an earlier one with this key, for --window", text(func(r *request) **string { return &r.windowKey })},
	{"window", kindSpan, "how long --window-key stands for this request", span(func(r *request) **time.Duration { return &r.window })},
	{"queue", kindText, `(default "default")`, text(func(r *request) **string { return &r.queue })},
	{"priority", kindInt, "-100 to 100, higher first (default 0)", integer(func(r *request) **int { return &r.priority })},
	{"delay", kindSpan, "start this long from now at the earliest", span(func(r *request) **time.Duration { return &r.delay })},
	{"run_after", kindTime, "start at this time at the earliest, as 2030-01-31T09:00:00Z", instant(func(r *request) **time.Time { return &r.runAfter })},
	{"max_attempts", kindInt, "1 to 10000 (default 10)", integer(func(r *request) **int { return &r.maxAttempts })},
	{"backoff", kindSpan, "delay before the second attempt, doubled with each further one (default 5s)", span(func(r *request) **time.Duration { return &r.backoff })},
	{"max_backoff", kindSpan, "the longest delay between attempts (default 1h)", span(func(r *request) **time.Duration { return &r.maxBackoff })},
	{"timeout", kindSpan, "the longest an attempt may take (default none)", span(func(r *request) **time.Duration { return &r.timeout })},
	{"lease", kindSpan, "", span(func(r *request) **time.Duration { return &r.leased })},
	{"metadata", kindJSON, "a JSON value to store with the task", raw(func(r *request) *json.RawMessage { return &r.metadata })},
	{"resource_keys", "", "", list(func(r *request) *[]string { return &r.resourceKeys })},
	{"no_wait", kindBool, "do not wait for another transaction that holds the key", boolean(func(r *request) **bool { return &r.noWait })},
}

func (m member) flag() string { return strings.ReplaceAll(m.name, "_", "-") }

// setter reads a JSON value into a field. null leaves the field open.
func setter[T any](field func(*request) **T, read func(json.RawMessage) (T, error)) func(*request, json.RawMessage) error {
	return func(r *request, value json.RawMessage) error {
		if string(value) == "null" {
			return nil
		}
		v, err := read(value)
		if err == nil {
			*field(r) = &v
		}
		return err
	}
}

func text(field func(*request) **string) func(*request, json.RawMessage) error {
	return setter(field, readText)
}

func readText(value json.RawMessage) (s string, err error) {
	if json.Unmarshal(value, &s) != nil {
		return "", errors.New("it must be a string")
	}
	// The decoder turns lone surrogates into U+FFFD, which would make one key of many.
	plain := bytes.ReplaceAll(value, []byte(`\\`), nil)
	given := bytes.Count(plain, []byte("\ufffd")) + bytes.Count(bytes.ToLower(plain), []byte(`\ufffd`))
	if strings.Count(s, "\ufffd") > given {
		return "", errors.New(`it has a \u escape that is only half of a character`)
	}
	return s, nil
}

func integer(field func(*request) **int) func(*request, json.RawMessage) error {
	return setter(field, func(value json.RawMessage) (n int, err error) {
		if json.Unmarshal(value, &n) != nil {
			return 0, errors.New("it must be a whole number")
		}
		return n, nil
	})
}

func boolean(field func(*request) **bool) func(*request, json.RawMessage) error {
	return setter(field, func(value json.RawMessage) (b bool, err error) {
		if json.Unmarshal(value, &b) != nil {
			return false, errors.New("it must be true or false")
		}
		return b, nil
	})
}

func span(field func(*request) **time.Duration) func(*request, json.RawMessage) error {
	return setter(field, func(value json.RawMessage) (time.Duration, error) {
		var s string
		if json.Unmarshal(value, &s) != nil {
			return 0, errors.New(`it must be a string such as "30s", "10m" or "7d"`)
		}
		return parseDuration(s)
	})
}

func instant(field func(*request) **time.Time) func(*request, json.RawMessage) error {
	return setter(field, func(value json.RawMessage) (time.Time, error) {
		var s string
		if json.Unmarshal(value, &s) == nil {
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
				return t, nil
			}
		}
		return time.Time{}, errors.New(`it must be a time with its zone, such as "2030-01-31T09:00:00Z"`)
	})
}

// raw keeps the text, so that no digit of a number is lost.
func raw(field func(*request) *json.RawMessage) func(*request, json.RawMessage) error {
	return func(r *request, value json.RawMessage) error {
		*field(r) = value
		return nil
	}
}

func list(field func(*request) *[]string) func(*request, json.RawMessage) error {
	return func(r *request, value json.RawMessage) error {
		if string(value) == "null" {
			return nil
		}
		var parts []json.RawMessage
		if json.Unmarshal(value, &parts) != nil {
			return errors.New("it must be an array of strings")
		}
		keys := make([]string, len(parts))
		for i, part := range parts {
			key, err := readText(part)
			if err != nil {
				return errors.New("it must be an array of strings")
			}
			keys[i] = key
		}
		*field(r) = keys
		return nil
	}
}

// parseLine reads a JSON object strictly: every member must be known, and there only once.
func parseLine(line []byte) (r request, err error) {
	if !utf8.Valid(line) {
		return r, errors.New("it is not valid UTF-8")
	}
	if !json.Valid(line) {
		return r, syntaxError(line)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return r, errors.New(`it must be a JSON object such as {"task":"hello","payload":{"n":1}}`)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return r, err
		}
		name, _ := token.(string) // what valid JSON has here
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return r, err
		}
		if seen[name] {
			return r, fmt.Errorf("member %q is there twice", name)
		}
		seen[name] = true
		if err := setMember(&r, name, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

func setMember(r *request, name string, value json.RawMessage) error {
	known := make([]string, len(members))
	for i, m := range members {
		if m.name == name {
			if err := m.set(r, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		known[i] = m.name
	}
	return fmt.Errorf("unknown member %q; there are %s", name, strings.Join(known, ", "))
}

func syntaxError(text []byte) error {
	var v any
	var syntax *json.SyntaxError
	err := json.Unmarshal(text, &v)
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not valid JSON: it ends too early")
	case syntax != nil:
		return fmt.Errorf("it is not valid JSON: %s, at byte %d", syntax.Error(), syntax.Offset)
	}
	return errors.New("it is not valid JSON")
}

func fill[T any](field **T, otherwise *T) {
	if *field == nil {
		*field = otherwise
	}
}

// withDefaults fills in what a line leaves open.
func (r request) withDefaults(d request) request {
	fill(&r.task, d.task)
	fill(&r.queue, d.queue)
	fill(&r.unique, d.unique)
	fill(&r.noWait, d.noWait)
	fill(&r.activeKey, d.activeKey)
	fill(&r.windowKey, d.windowKey)
	fill(&r.window, d.window)
	fill(&r.priority, d.priority)
	fill(&r.maxAttempts, d.maxAttempts)
	fill(&r.backoff, d.backoff)
	fill(&r.maxBackoff, d.maxBackoff)
	fill(&r.timeout, d.timeout)
	fill(&r.leased, d.leased)
	if r.delay == nil && r.runAfter == nil { // they exclude each other, so a line replaces both
		r.delay, r.runAfter = d.delay, d.runAfter
	}
	if r.payload == nil {
		r.payload = d.payload
	}
	if r.metadata == nil {
		r.metadata = d.metadata
	}
	if r.resourceKeys == nil {
		r.resourceKeys = d.resourceKeys
	}
	return r
}

// build makes the client's request. There a zero value means "not given", so one that was given is refused here.
func (r request) build() (pgqueue.Request, error) {
	var zero error
	for _, given := range []struct {
		name string
		zero bool
		rule string
	}{
		{"task", r.task == nil || *r.task == "", "it is required"},
		{"queue", isZero(r.queue), "it is empty"},
		{"active_key", isZero(r.activeKey), "it is empty, a key is 1 to 512 bytes"},
		{"window_key", isZero(r.windowKey), "it is empty, a key is 1 to 512 bytes"},
		{"window", isZero(r.window), "it must be positive"},
		{"max_attempts", isZero(r.maxAttempts), "it is 0, it must be from 1 to 10000"},
		{"backoff", isZero(r.backoff), "it must be positive"},
		{"max_backoff", isZero(r.maxBackoff), "it must be positive"},
		{"timeout", isZero(r.timeout), "it must be positive"},
		{"lease", isZero(r.leased), "it must be positive"},
	} {
		if given.zero && zero == nil {
			zero = fmt.Errorf("%s: %s", given.name, given.rule)
		}
	}
	if zero != nil {
		return pgqueue.Request{}, zero
	}
	return pgqueue.Request{
		TaskName: value(r.task), Payload: r.payload, Unique: value(r.unique), ActiveKey: value(r.activeKey),
		WindowKey: value(r.windowKey), Window: value(r.window), Queue: value(r.queue), Priority: r.priority,
		RunAfter: value(r.runAfter), Delay: value(r.delay), MaxAttempts: value(r.maxAttempts), Backoff: value(r.backoff),
		MaxBackoff: value(r.maxBackoff), Timeout: value(r.timeout), Lease: value(r.leased),
		ResourceKeys: r.resourceKeys, Metadata: r.metadata, NoWait: value(r.noWait),
	}, nil
}

func isZero[T comparable](p *T) bool {
	var zero T
	return p != nil && *p == zero
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
