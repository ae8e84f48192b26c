package demo

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// event is one line of the input: what becomes a task, if its keys are free.
type event struct {
	payload   []byte
	activeKey string
	windowKey string
}

// input is what the demo feeds into the queue.
type input struct {
	name   string // for people: the file
	task   string // name of the tasks
	keys   string // for people: what the keys are
	events []event
	// skipped lines are no events.
	skipped int
	// redeliver is the share of events, in percent, that the demo delivers again. 0 where the file has redeliveries of its own.
	redeliver int
	// notes tell why this input was chosen.
	notes []string
}

//go:embed webhooks.ndjson
var webhooks []byte

// fewest is how many events a package log must have to show something.
const fewest = 200

// The package logs that the demo looks for.
var packageLogs = []packageLog{
	{"/var/log/dpkg.log", parseDpkg},
	{"/var/log/pacman.log", parsePacman},
	{"/var/log/dnf.rpm.log", parseDnf},
}

// choose reads the file that was asked for, or else the first package log that is there and long enough, or else the webhook
// deliveries that come with the program.
func choose(o Options, logs []packageLog) (input, error) {
	fields := keyFields{active: o.ActiveKeyField, window: o.WindowKeyField}
	if o.File != "" {
		return readFile(o.File, fields, o.Limit)
	}
	var notes []string
	for _, log := range logs {
		in, err := log.read(o.Limit)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			notes = append(notes, err.Error())
			continue
		case len(in.events) < fewest && (o.Limit == 0 || len(in.events) < o.Limit):
			notes = append(notes, fmt.Sprintf("%s has only %d package events", log.path, len(in.events)))
			continue
		}
		in.notes = notes
		return in, nil
	}
	if len(notes) == 0 {
		notes = append(notes, "this machine has no package log")
	}
	in, err := readNDJSON(bytes.NewReader(webhooks), keyFields{}, o.Limit)
	if err != nil {
		return input{}, fmt.Errorf("the webhook deliveries of the program: %w", err)
	}
	in.name, in.task, in.notes = "webhook deliveries that come with pgqueue", "webhook", notes
	return in, nil
}

func readFile(path string, fields keyFields, limit int) (input, error) {
	file, err := os.Open(path)
	if err != nil {
		return input{}, err
	}
	in, err := readNDJSON(file, fields, limit)
	if err := errors.Join(err, file.Close()); err != nil {
		return input{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(in.events) == 0 {
		return input{}, fmt.Errorf("%s: no line is a JSON object", path)
	}
	in.name = path
	return in, nil
}

// lines calls f for each line, without its end, until f returns false.
func lines(r io.Reader, f func(line []byte) bool) error {
	reader := newLineReader(r)
	for {
		line, err := reader.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !f(line) {
			return nil
		}
	}
}

const maxKey = 512

// fitKey returns a text that the queue takes as a key: text itself where it keeps the rules, a digest where it does not.
func fitKey(text string) string {
	if text == "" || len(text) > maxKey || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return digest([]byte(text))
	}
	return text
}
