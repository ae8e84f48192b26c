// Package hammer beats on the gate of a queue: many sessions enqueue few keys at once while workers settle the tasks. In the end the
// answers are compared with each other and with the database.
package hammer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sql"
)

// Options say how hard to beat.
type Options struct {
	// DatabaseURL names a migrated database to use, in a namespace of its own that is emptied in the end. Empty starts a throwaway
	// server.
	DatabaseURL string
	// Sessions enqueue, each on a connection of its own, so many Keys; Workers settle the tasks.
	Sessions, Keys, Workers int
	// Duration of the enqueues one by one.
	Duration time.Duration
	// Batches enqueues batches of all keys in opposite orders instead, so many Rounds in each session.
	Batches bool
	Rounds  int
	// FailFast ends the run at the first broken promise.
	FailFast bool
	// JSON writes the summary as JSON to Out, and everything else to Log.
	JSON     bool
	Out, Log io.Writer
}

// ErrNotOK is the error of a run in which the queue broke a promise.
var ErrNotOK = errors.New("the queue broke a promise")

const (
	stopTimeout = 15 * time.Second
	// Long enough for what is no test of leases.
	leaseLength = 24 * time.Hour
	lookEvery   = time.Second
	mostShown   = 20
)

func (o Options) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > 1000:
		return fmt.Errorf("the number of sessions is %d, it must be from 1 to 1000", o.Sessions)
	case o.Keys < 1 || o.Keys > 10000:
		return fmt.Errorf("the number of keys is %d, it must be from 1 to 10000", o.Keys)
	case o.Workers < 0 || o.Workers > 1000:
		return fmt.Errorf("the number of workers is %d, it must be from 0 to 1000", o.Workers)
	case o.Batches && o.Rounds < 1:
		return fmt.Errorf("the number of rounds is %d, it must be positive", o.Rounds)
	case !o.Batches && o.Duration <= 0:
		return fmt.Errorf("the duration is %s, it must be positive", o.Duration)
	}
	return nil
}

// Run beats, and returns nil only when all promises were kept.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	url, namespace := o.DatabaseURL, "hammer-"+strings.ToLower(rand.Text()[:8])
	if url == "" {
		server, err := devserver.StartTemporary(ctx, devserver.Options{Settings: map[string]string{
			"max_connections": fmt.Sprint(o.connections() + 20), "deadlock_timeout": "200ms",
		}})
		if err != nil {
			return err
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, server.Stop(stopping))
		}()
		url = server.URL
		if err := migrate(ctx, url); err != nil {
			return err
		}
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = int32(o.connections())
	// What is promised of every call is promised at this level.
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Namespace: namespace})
	if err != nil {
		return err
	}
	r := &run{options: o, pool: pool, client: client, namespace: namespace, created: map[pgqueue.TaskID]string{}, reused: map[pgqueue.TaskID]string{}}
	err = errors.Join(r.run(ctx), r.clean(context.WithoutCancel(ctx)))
	if err != nil {
		return err
	}
	return r.report()
}

func (o Options) connections() int { return o.Sessions + o.Workers + 2 }

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(sql.Migrate(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
}

// summary is what came of a run.
type summary struct {
	Sessions   int     `json:"sessions"`
	Keys       int     `json:"keys"`
	Workers    int     `json:"workers"`
	Seconds    float64 `json:"seconds"`
	Batches    int     `json:"batches"`
	Calls      int     `json:"calls"` // enqueues, each item of a batch counts
	Created    int     `json:"created"`
	Reused     int     `json:"reused"`
	Refused    int     `json:"refused"`
	Settled    int     `json:"settled"`
	Deadlocks  int     `json:"deadlocks"`
	Errors     int     `json:"errors"`
	Violations int     `json:"violations"`
	OK         bool    `json:"ok"`
}

func (s summary) line() string {
	verdict := "FAILED"
	if s.OK {
		verdict = "ok"
	}
	what := fmt.Sprintf("%d calls", s.Calls)
	if s.Batches > 0 {
		what = fmt.Sprintf("%d batches, %d items", s.Batches, s.Calls)
	}
	return fmt.Sprintf("hammer: %d sessions x %d keys x %d workers, %.1f s: %s, created %d, reused %d, refused %d, settled %d, deadlocks %d, errors %d, violations %d: %s",
		s.Sessions, s.Keys, s.Workers, s.Seconds, what, s.Created, s.Reused, s.Refused, s.Settled, s.Deadlocks, s.Errors, s.Violations, verdict)
}

func (r *run) report() error {
	s := r.summary
	s.Sessions, s.Keys, s.Workers = r.options.Sessions, r.options.Keys, r.options.Workers
	s.OK = s.Errors == 0 && s.Deadlocks == 0 && s.Violations == 0 && s.Created > 0
	log := r.options.Out
	if r.options.JSON {
		log = r.options.Log
	}
	for _, p := range r.problems {
		fmt.Fprintln(log, p)
	}
	if more := r.found - len(r.problems); more > 0 {
		fmt.Fprintf(log, "and %d more\n", more)
	}
	if r.options.JSON {
		if err := json.NewEncoder(r.options.Out).Encode(s); err != nil {
			return err
		}
	}
	fmt.Fprintln(log, s.line())
	if !s.OK {
		return ErrNotOK
	}
	return nil
}

// clean removes what the run has left in a database that was given.
func (r *run) clean(ctx context.Context) error {
	if r.options.DatabaseURL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return r.empty(ctx)
}

func (r *run) invariants(ctx context.Context) {
	found, err := gen.CheckInvariants(ctx, r.pool, gen.CheckInvariantsParams{Namespace: &r.namespace})
	if err != nil {
		if ctx.Err() == nil {
			r.fail(fmt.Errorf("check invariants: %w", err))
		}
		return
	}
	for _, v := range found {
		r.violation("%s: %s (task %v)", v.Rule, v.Details, v.TaskID)
	}
}
