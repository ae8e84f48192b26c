package pgqueue

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// wake is how the listener ends the pause of an idle worker.
type wake struct {
	queues []string
	signal chan struct{}
}

func newWake(queues []string) *wake { return &wake{queues: queues, signal: make(chan struct{}, 1)} }

// reset forgets signals that came before a look.
func (k *wake) reset() {
	select {
	case <-k.signal:
	default:
	}
}

func (k *wake) wait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-k.signal:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (k *wake) ring() {
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

// listenCheck is how often a silent listener asks the server whether the connection still lives.
const listenCheck = 10 * time.Second

// listen wakes the worker on notifications until ctx ends. It reconnects after any error; polling goes on all the while, so what
// is missed costs at most one poll interval.
func (w *Worker) listen(ctx context.Context, wake *wake) {
	for failures := 1; ctx.Err() == nil; failures++ {
		begun := time.Now()
		err := w.listenOnce(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > listenCheck {
			failures = 1
		}
		w.log.Warn("listen: connection lost, polling goes on", "error", err)
		if !sleep(ctx, jitter(backoff(failures))) {
			return
		}
	}
}

func (w *Worker) listenOnce(ctx context.Context, wake *wake) error {
	config := w.config.ListenConfig
	if config == nil {
		config = w.client.pool.Config().ConnConfig
	}
	connecting, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := conn.Close(closing); err != nil {
			w.log.Debug("listen: close", "error", err)
		}
	}()
	channel := pgx.Identifier{"pgqueue:" + w.client.namespace}.Sanitize()
	if _, err := conn.Exec(connecting, "listen "+channel); err != nil { //sql:connection
		return err
	}
	wake.ring() // for what was enqueued while nobody listened
	for {
		waiting, cancel := context.WithTimeout(ctx, listenCheck)
		n, err := conn.WaitForNotification(waiting)
		timedOut := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			if slices.Contains(wake.queues, n.Payload) {
				wake.ring()
			}
		case timedOut && !conn.IsClosed():
			checking, cancel := context.WithTimeout(ctx, listenCheck)
			err := conn.Ping(checking)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
