package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// The members that the keys are read from unless told otherwise.
const (
	DefaultActiveKeyField = "object"
	DefaultWindowKeyField = "id"
)

// keyFields are paths of members, with dots between the steps.
type keyFields struct {
	active, window string
}

// readNDJSON makes an event of each line that is a JSON object.
func readNDJSON(r io.Reader, fields keyFields, limit int) (input, error) {
	if fields.active == "" {
		fields.active = DefaultActiveKeyField
	}
	if fields.window == "" {
		fields.window = DefaultWindowKeyField
	}
	in := input{
		task: "event",
		keys: fmt.Sprintf("active key: member %q; window key: member %q", fields.active, fields.window),
	}
	first := true
	err := lines(r, func(line []byte) bool {
		if first {
			line, first = bytes.TrimPrefix(line, []byte("\ufeff")), false
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return true
		}
		e, ok := parseObject(line, fields)
		if !ok {
			in.skipped++
			return true
		}
		in.events = append(in.events, e)
		return limit <= 0 || len(in.events) < limit
	})
	return in, err
}

// parseObject makes an event of a JSON object. A member that is not there, or null or empty, makes no key. An event with neither
// key is unique by its whole payload.
func parseObject(line []byte, fields keyFields) (event, bool) {
	if line[0] != '{' || !json.Valid(line) {
		return event{}, false
	}
	return event{payload: line, activeKey: member(line, fields.active), windowKey: member(line, fields.window)}, true
}

// member returns the text of a member: a string's own, the JSON text of anything else. A name with dots in it is found before
// the path that it looks like.
func member(object []byte, path string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return "" // no object: the path leads nowhere
	}
	value, ok := members[path]
	if !ok {
		step, rest, more := strings.Cut(path, ".")
		if !more {
			return ""
		}
		return member(members[step], rest)
	}
	var text string
	if json.Unmarshal(value, &text) == nil { // null gives ""
		if text == "" {
			return ""
		}
		return fitKey(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return ""
	}
	return fitKey(compact.String())
}
