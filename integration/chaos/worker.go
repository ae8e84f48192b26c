package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	// workerEnv holds the workerSpec of a worker process, which is this program again.
	workerEnv     = "PGQUEUE_CHAOS_WORKER"
	journalSuffix = ".journal"

	lease        = 2 * time.Second
	reapInterval = 300 * time.Millisecond
	concurrency  = 16
	tick         = 50 * time.Millisecond
	stallTicks   = 400 * time.Millisecond
)

type workerSpec struct {
	URL, Name, Journal string
}

// work is the payload of a task: what its handler does.
type work struct {
	// Window and Active are the keys, Request and Try tell which call of a producer wrote the row.
	Window  string `json:"w,omitempty"`
	Active  string `json:"a,omitempty"`
	Request int    `json:"r,omitempty"`
	Try     int    `json:"t,omitempty"`
	// Changed marks a second request under a window key that is not the first one.
	Changed bool `json:"x,omitempty"`

	Milliseconds int  `json:"ms,omitempty"`
	Failures     int  `json:"fail,omitempty"`
	Snooze       bool `json:"snooze,omitempty"`
	// Deaf handlers do not heed their context, so they report under leases that are lost.
	Deaf bool `json:"deaf,omitempty"`
}

type outcomeNote struct {
	Worker string `json:"worker"`
	Lease  int    `json:"lease"`
}

var errPlanned = errors.New("the payload says that this attempt fails")

// workerMain is a worker process. It ends when told by SIGTERM, and when its standard input ends, because then the suite is gone.
func workerMain(spec string, input io.Reader) error {
	var s workerSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches the whole group; the suite tells its workers
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, input)
		os.Exit(1)
	}()
	j, err := openJournal(s.Journal)
	if err != nil {
		return err
	}
	go watchStalls(ctx, j)
	pool, err := connect(s.URL, s.Name, 5)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	for ctx.Err() == nil {
		err := runWorker(ctx, pool, s.Name, j, log)
		if err == nil {
			return nil
		}
		// The server may be away at any time, so also just when a worker begins.
		log.Warn("worker did not begin, or did not end well", "error", err)
		sleep(ctx, 100*time.Millisecond)
	}
	return nil
}

func runWorker(ctx context.Context, pool *pgxpool.Pool, name string, j *journal, log *slog.Logger) error {
	connecting, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	client, err := pgqueue.NewClient(connecting, pool, pgqueue.Config{Logger: log})
	if err != nil {
		return err
	}
	w := pgqueue.NewWorker(client, pgqueue.WorkerConfig{
		Name: name, Concurrency: concurrency, Lease: lease, ReapInterval: reapInterval, PollInterval: 500 * time.Millisecond,
		DrainTimeout: 3 * time.Second,
	})
	pgqueue.Handle(w, jobType, func(ctx context.Context, t *pgqueue.Task[work]) error { return handle(ctx, t, name, j) })
	return w.Run(ctx)
}

var jobType = pgqueue.Define("chaos", pgqueue.TaskOptions[work]{})

func handle(ctx context.Context, t *pgqueue.Task[work], name string, j *journal) error {
	if err := j.begin(t.ID, t.LeaseNumber); err != nil {
		return err
	}
	how, err := do(ctx, t)
	if err == nil {
		err = t.SetResult(outcomeNote{name, t.LeaseNumber})
	}
	return errors.Join(err, j.end(t.ID, t.LeaseNumber, how))
}

func do(ctx context.Context, t *pgqueue.Task[work]) (string, error) {
	if t.Args.Deaf {
		time.Sleep(time.Duration(t.Args.Milliseconds) * time.Millisecond)
	} else if !sleep(ctx, time.Duration(t.Args.Milliseconds)*time.Millisecond) {
		return endedBroken, context.Cause(ctx)
	}
	switch {
	case t.Attempt <= t.Args.Failures:
		return endedFail, errPlanned
	case t.Args.Snooze && t.LeaseNumber == 1:
		return endedSnooze, pgqueue.Snooze(100 * time.Millisecond)
	}
	return endedOK, nil
}

// watchStalls notes when the machine did not let this process run, which can cost it its lease as well as an injected fault.
func watchStalls(ctx context.Context, j *journal) {
	for last := time.Now(); sleep(ctx, tick); {
		now := time.Now()
		if now.Sub(last) > stallTicks {
			if err := j.stalled(last, now); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		last = now
	}
}

// connect makes a pool that names itself to the server, for those who end backends. It does not connect yet.
func connect(url, name string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	return pgxpool.NewWithConfig(context.Background(), config)
}

// sleep tells whether ctx still lives after d.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
