package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// problem is an error as a person or a program reads it.
type problem struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// errSilent is an error about which everything has been said.
var errSilent = errors.New("reported already")

// report writes the error on stderr and returns the exit code.
func (a *app) report(command string, err error) int {
	var usage usageError
	if !errors.As(err, &usage) && !a.checked {
		usage = usageError{err.Error()} // by cobra, which has no type for it
		err = usage
	}
	switch {
	case errors.Is(err, errSilent):
	case a.json:
		a.reportJSON(explain(err))
	default:
		writeProblem(a.errOut, explain(err))
	}
	if usage.text == "" {
		return exitError
	}
	if !a.json {
		fmt.Fprintf(a.errOut, "Run '%s --help' for usage.\n", command)
	}
	return exitUsage
}

func (a *app) reportJSON(p problem) {
	line, err := json.Marshal(map[string]problem{"error": p})
	if err != nil {
		panic(err) // strings always marshal
	}
	fmt.Fprintln(a.errOut, string(line))
}

func writeProblem(w interface{ Write([]byte) (int, error) }, p problem) {
	fmt.Fprintln(w, "Error: "+p.Message)
	if p.Hint != "" {
		fmt.Fprintln(w, "Hint:  "+p.Hint)
	}
}

const migrateHint = "run: pgqueue migrate"

// Refusals that come as values have no hint of the server.
var hints = []struct {
	kind error
	text string
}{
	{pgqueue.ErrConflict, "A window key stands for one request until its window ends: use another key for another request."},
	{pgqueue.ErrCompositionConflict, "The two keys belong to two tasks: wait until the holder of the active key is settled, or use one of the keys alone."},
	{pgqueue.ErrKeyMismatch, "The key of this task type is declared: leave it out, or give the declared one."},
	{pgqueue.ErrKeyRequired, "This task type is declared unique: give its key."},
	{pgqueue.ErrInvalidKey, "A key is 1 to 512 bytes of UTF-8 without control characters."},
	{pgqueue.ErrInvalidWindow, "A window key comes with its window; that is positive, at most 3650 days, in whole milliseconds."},
	{pgqueue.ErrRace, "Another transaction holds the key and has not ended: try again."},
}

// explain finds plain words for an error.
func explain(err error) problem {
	var queue *pgqueue.Error
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	var batch stopped
	isServer := errors.As(err, &server)
	switch {
	case errors.As(err, &batch):
		p := explain(batch.err)
		p.Message = fmt.Sprintf("stopped at line %d: %s; before it %s", batch.line, p.Message, batch.summary)
		return p
	case errors.As(err, &queue):
		p := problem{Code: queue.Code, Message: queue.Message, Hint: queue.Hint}
		for _, h := range hints {
			if p.Hint == "" && errors.Is(err, h.kind) {
				p.Hint = h.text
			}
		}
		if errors.Is(err, pgqueue.ErrInvalidWindow) {
			p.Message = strings.ReplaceAll(p.Message, "window_length", "window") // its name here
		}
		return p
	case errors.As(err, &connect):
		return explainConnect(connect, server)
	case errors.Is(err, context.Canceled):
		return problem{Message: "interrupted"}
	case isServer && (server.Code == "3F000" || server.Code == "42883" || server.Code == "42P01"):
		return problem{Code: server.Code, Message: "this database has no pgqueue schema, or only a part of it (" + server.Message + ")", Hint: migrateHint}
	case isServer && server.Code == "42501":
		return problem{Code: server.Code, Message: server.Message, Hint: "The role of this connection lacks rights on the queue; its owner, or a superuser, can grant them."}
	case isServer:
		return problem{Code: server.Code, Message: "the server says: " + server.Message, Hint: server.Hint}
	case errors.Is(err, pgqueue.ErrSchema):
		return problem{Message: strings.TrimSuffix(strings.TrimPrefix(err.Error(), "pgqueue: "), ": run pgqueue migrate"), Hint: migrateHint}
	}
	return problem{Message: strings.TrimPrefix(err.Error(), "pgqueue: ")}
}

func explainConnect(err *pgconn.ConnectError, server *pgconn.PgError) problem {
	p := problem{Hint: "Is it the right --database-url or DATABASE_URL, and is the server up?"}
	reason := err.Unwrap().Error()
	var network *net.OpError
	var name *net.DNSError
	switch {
	case server != nil:
		p.Code, reason = server.Code, server.Message
		if server.Code == "3D000" {
			p.Hint = "Create the database first, for example with createdb."
		}
	case errors.As(err, &name):
		reason = "there is no host " + name.Name
	case errors.As(err, &network):
		reason = strings.TrimPrefix(network.Err.Error(), "connect: ")
	}
	where := err.Config.Host
	if !strings.HasPrefix(where, "/") {
		where = net.JoinHostPort(err.Config.Host, fmt.Sprint(err.Config.Port))
	}
	p.Message = fmt.Sprintf("cannot connect to database %q at %s as user %q: %s", err.Config.Database, where, err.Config.User, reason)
	return p
}

// badURL keeps to what pgx tells, which hides the password.
func badURL(err error) error {
	return fmt.Errorf("the database URL is wrong, it should be like postgres://user@host:5432/database: %w", err)
}
