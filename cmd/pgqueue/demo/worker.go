package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A worker process gets its orders by environment, where the password in the URL is not for everybody to see, and by its input.
const (
	workerURL       = "PGQUEUE_DEMO_DATABASE_URL"
	workerNamespace = "PGQUEUE_DEMO_NAMESPACE"
	workerName      = "PGQUEUE_DEMO_WORKER"

	orderHold = "hold"
	orderStop = "stop"
)

const (
	lease        = 2 * time.Second
	reapInterval = 500 * time.Millisecond
	concurrency  = 4
)

var errAlone = errors.New("the demo ended without a word; so does its worker")

// RunWorker is a worker process of the demo. At the order "hold" its handlers hang, and at "stop" it drains. The end of orders
// without "stop" means that the demo is gone, and then the worker goes at once.
func RunWorker(ctx context.Context, orders io.Reader) error {
	url, namespace, name := os.Getenv(workerURL), os.Getenv(workerNamespace), os.Getenv(workerName)
	if url == "" || namespace == "" || name == "" {
		return errors.New("this command is for the demo itself, which starts its workers with it")
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes of the terminal; the demo tells its workers

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := &hands{stop: ctx.Done(), hold: make(chan struct{})}
	alone := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(orders)
		for lines.Scan() {
			switch lines.Text() {
			case orderHold:
				close(h.hold)
			case orderStop:
				stop()
				return
			}
		}
		close(alone)
	}()
	ended := make(chan error, 1)
	go func() { ended <- h.work(ctx, url, namespace, name) }()
	select {
	case err := <-ended:
		return err
	case <-alone:
		return errAlone
	}
}

// hands do the work of a worker.
type hands struct {
	stop <-chan struct{} // closed when the worker is to stop
	hold chan struct{}   // closed when its handlers are to hang until then
}

func (h *hands) work(ctx context.Context, url, namespace, name string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Namespace: namespace, Logger: logger})
	if err != nil {
		return err
	}
	w := pgqueue.NewWorker(client, pgqueue.WorkerConfig{
		Name: name, Queues: []string{queue}, Concurrency: concurrency,
		Lease: lease, ReapInterval: reapInterval, PollInterval: 500 * time.Millisecond, DrainTimeout: 2 * time.Second,
	})
	pgqueue.HandleOther(w, h.handle)
	return w.Run(ctx)
}

// handle stands for real work: it takes 5 to 40 ms, fails for one task in twenty at first, and for some of these once more. All
// of it depends on the payload alone.
func (h *hands) handle(ctx context.Context, task *pgqueue.Task[json.RawMessage]) error {
	took := time.Duration(5+dice("work", task.Payload)%36) * time.Millisecond
	if !sleep(ctx, took) {
		return context.Cause(ctx)
	}
	select {
	case <-h.hold:
		select {
		case <-h.stop:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	default:
	}
	if task.Attempt <= failures(task.Payload) {
		return fmt.Errorf("the demo lets attempt %d of this task fail", task.Attempt)
	}
	return task.SetResult(map[string]any{"bytes": len(task.Payload), "milliseconds": took.Milliseconds()})
}

// failures is how often a task fails before it succeeds.
func failures(payload []byte) int {
	switch n := dice("fail", payload) % 100; {
	case n < 1:
		return 2
	case n < 5:
		return 1
	default:
		return 0
	}
}
