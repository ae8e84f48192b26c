// Package demo shows the queue at work on a real file: producers deliver its lines more than once and at the same time, worker
// processes do the work, one of them is killed on the way, and in the end the receipts are compared with the database.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sql"
)

// Options say what the demo does.
type Options struct {
	// DatabaseURL names a migrated database to use, in a namespace of its own. Empty starts a throwaway server.
	DatabaseURL string
	// File is an NDJSON file to deliver. Empty takes the machine's package log, or the deliveries that come with the program.
	File string
	// ActiveKeyField and WindowKeyField are the members of a line of File that make its keys.
	ActiveKeyField, WindowKeyField string
	// Limit is how many lines are read, 0 for all.
	Limit int
	// Producers and Workers are how many of each there are; a worker is a process.
	Producers, Workers int
	// Redeliver is the share of lines, in percent, that the demo delivers again; negative takes what the input needs.
	Redeliver int
	// Spread is the time over which the deliveries are spread; 0 takes what the number of deliveries needs.
	Spread time.Duration
	// JSON writes the summary as JSON to Out, and everything else to Log.
	JSON     bool
	Out, Log io.Writer

	logs   []packageLog
	worker []string // command of a worker process; nil for this program's own
	tamper func(ctx context.Context, pool *pgxpool.Pool, namespace string) error
}

// ErrNotOK is the error of a demo whose numbers do not add up.
var ErrNotOK = errors.New("the numbers of the demo do not add up")

const (
	// A demo ends within a minute: it stops delivering after feedTime and waits for tasks until workTime, both from the first
	// delivery on.
	feedTime = 30 * time.Second
	workTime = 45 * time.Second

	perSecond   = 600 // deliveries, where the number of them gives the time
	shortest    = 4 * time.Second
	longest     = 10 * time.Second
	stopTimeout = 15 * time.Second
	drainTime   = 8 * time.Second
)

// WorkerArgs are the arguments with which this program is a worker of the demo.
var WorkerArgs = []string{"demo", "worker"}

func (o Options) check() error {
	switch {
	case o.Producers < 1 || o.Producers > 100:
		return fmt.Errorf("the number of producers is %d, it must be from 1 to 100", o.Producers)
	case o.Workers < 2 || o.Workers > 20:
		return fmt.Errorf("the number of workers is %d, it must be from 2 to 20: one of them is killed", o.Workers)
	case o.Limit < 0:
		return fmt.Errorf("the limit is %d, it must not be negative", o.Limit)
	case o.Redeliver > 100:
		return fmt.Errorf("the share to deliver again is %d percent, it must be at most 100", o.Redeliver)
	case o.Spread < 0 || o.Spread > feedTime:
		return fmt.Errorf("the time to spread the deliveries over is %s, it must be at most %s", o.Spread, feedTime)
	}
	return nil
}

// Run runs the demo. It returns nil only when everything adds up.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	out := o.Out
	if o.JSON {
		out = o.Log
	}
	if o.worker == nil {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program, to start it as a worker: %w", err)
		}
		o.worker = append([]string{self}, WorkerArgs...)
	}
	if o.logs == nil {
		o.logs = packageLogs
	}
	in, err := choose(o, o.logs)
	if err != nil {
		return err
	}
	if o.Redeliver >= 0 {
		in.redeliver = o.Redeliver
	}
	p, err := makePlan(in, in.redeliver, o.Producers)
	if err != nil {
		return err
	}
	describe(out, o, in, p)

	namespace := "demo"
	url := o.DatabaseURL
	if url == "" {
		server, err := devserver.StartTemporary(ctx, devserver.Options{})
		if err != nil {
			return interrupted(ctx, err)
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, server.Stop(stopping))
		}()
		url = server.URL
		if err := migrate(ctx, url); err != nil {
			return interrupted(ctx, err)
		}
	} else {
		namespace += "-" + strings.ToLower(rand.Text()[:8])
	}
	fmt.Fprintf(out, "server     %s\n\n", serverText(o, namespace))

	pool, err := connect(ctx, url, o.Producers+3)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Namespace: namespace})
	if err != nil {
		return interrupted(ctx, err)
	}
	r := &run{
		options: o, input: in, plan: p, url: url, namespace: namespace, pool: pool, client: client, ledger: newLedger(),
		display: newDisplay(out),
	}
	s, err := r.run(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	s.write(out)
	if o.JSON {
		if err := s.writeJSON(o.Out); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, s.line())
	if !s.OK {
		return ErrNotOK
	}
	return nil
}

// interrupted tells an end by signal from a failure.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Canceled)
	}
	return err
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(sql.Migrate(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
}

func connect(ctx context.Context, url string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	return pgxpool.NewWithConfig(ctx, config)
}

func describe(out io.Writer, o Options, in input, p plan) {
	for _, note := range in.notes {
		fmt.Fprintf(out, "note       %s\n", note)
	}
	fmt.Fprintf(out, "input      %s: %d lines", in.name, len(in.events))
	if in.skipped > 0 {
		fmt.Fprintf(out, " (and %d that are no events)", in.skipped)
	}
	fmt.Fprintf(out, "\ndeliveries %d", len(p.deliveries))
	if p.again > 0 {
		fmt.Fprintf(out, ": the demo redelivers %d %% of the lines, as a webhook sender would,\n           %d in all, %d of them with a changed body",
			in.redeliver, p.again, p.changed)
	}
	fmt.Fprintf(out, "\nkeys       %s, for %g h\n", in.keys, window.Hours())
	fmt.Fprintf(out, "runs on    %d producers and %d worker processes, of which one is killed\n", o.Producers, o.Workers)
}

func serverText(o Options, namespace string) string {
	if o.DatabaseURL == "" {
		return "a throwaway PostgreSQL, which goes with the demo"
	}
	return fmt.Sprintf("the database that was given, in namespace %s; the tasks stay there", namespace)
}
