package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	maxLine       = 64 << 20
	progressFrom  = 1000
	progressEvery = 200 * time.Millisecond
)

// batch enqueues the lines of a file.
type batch struct {
	app      *app
	client   *pgqueue.Client
	defaults request

	number                  int // of the line
	lines                   int64
	created, reused, failed int64
	shown                   time.Time
}

func (a *app) enqueueLines(ctx context.Context, file string, defaults request, failFast bool) (err error) {
	in := a.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		in = opened
	}
	return a.withClient(ctx, func(c *pgqueue.Client) error {
		b := &batch{app: a, client: c, defaults: defaults}
		err := b.run(ctx, in, failFast)
		b.clearProgress()
		switch {
		case errors.Is(err, context.Canceled):
			return fmt.Errorf("interrupted; %s", b.summary())
		case err != nil:
			return err
		case b.failed > 0:
			return errors.New(b.summary())
		}
		return nil
	})
}

// stopped is an error that ended a batch before its end.
type stopped struct {
	line    int
	summary string
	err     error
}

func (s stopped) Error() string { return fmt.Sprintf("line %d: %v", s.line, s.err) }
func (s stopped) Unwrap() error { return s.err }

func (b *batch) summary() string {
	return fmt.Sprintf("%s tried: %d created, %d reused, %d failed", plural(b.lines, "line"), b.created, b.reused, b.failed)
}

func (b *batch) run(ctx context.Context, in io.Reader, failFast bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		b.number++
		line := lines.Bytes()
		if b.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b.lines++
		refused, err := b.enqueue(ctx, line)
		if err != nil {
			return err
		}
		if refused && failFast {
			return nil
		}
		b.showProgress()
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d MiB", b.number+1, maxLine>>20)
	}
	if lines.Err() != nil {
		return fmt.Errorf("read after line %d: %w", b.number, lines.Err())
	}
	return nil
}

// enqueue handles one line. An error is one that the lines after it would meet as well.
func (b *batch) enqueue(ctx context.Context, line []byte) (refused bool, err error) {
	parsed, err := parseLine(line)
	if err != nil {
		return true, b.refuse(err)
	}
	r, err := parsed.withDefaults(b.defaults).build()
	if err != nil {
		return true, b.refuse(err)
	}
	receipt, err := enqueue(ctx, b.client, r)
	var queue *pgqueue.Error
	var server *pgconn.PgError
	switch {
	case err == nil && receipt.Created():
		b.created++
	case err == nil:
		b.reused++
	case errors.As(err, &queue) && !errors.Is(err, pgqueue.ErrStandby):
		return true, b.refuse(err)
	case errors.As(err, &server) && strings.HasPrefix(server.Code, "22"): // about the data
		return true, b.refuse(err)
	default:
		b.lines--
		return true, stopped{b.number, b.summary(), err}
	}
	return false, b.app.printReceipt(b.number, receipt)
}

// refuse prints the line of output of a line that failed.
func (b *batch) refuse(err error) error {
	b.failed++
	p := explain(err)
	out := enqueued{Line: b.number, Error: &p}
	var queue *pgqueue.Error
	if errors.As(err, &queue) && (errors.Is(err, pgqueue.ErrConflict) || errors.Is(err, pgqueue.ErrCompositionConflict)) {
		out.ConflictID, out.HolderID = queue.TaskID, queue.HolderID
	}
	if b.app.json {
		return b.app.printJSON(out)
	}
	if out.ConflictID != nil {
		b.app.printf("CONFLICT %s line %d: %s\n", out.ConflictID, b.number, p.Message)
		return nil
	}
	b.app.printf("ERROR line %d: %s\n", b.number, p.Message)
	return nil
}

// showProgress is for a person who waits, and sends the output elsewhere.
func (b *batch) showProgress() {
	if b.lines < progressFrom || time.Since(b.shown) < progressEvery || !isTerminal(b.app.errOut) || isTerminal(b.app.out) {
		return
	}
	b.shown = time.Now()
	fmt.Fprintf(b.app.errOut, "\r\x1b[K%s", b.summary())
}

func (b *batch) clearProgress() {
	if !b.shown.IsZero() {
		fmt.Fprint(b.app.errOut, "\r\x1b[K")
	}
}
