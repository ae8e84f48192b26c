package integration_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// wires are connections that can go dead as they do behind a firewall that has forgotten them: what is sent is lost, and nobody says so.
type wires struct {
	mu   sync.Mutex
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	all  []*wire
}

type wire struct {
	net.Conn

	mu   sync.Mutex
	dead bool
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

func (w *wires) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	made := &wire{Conn: conn}
	w.all = append(w.all, made)
	return made, nil
}

// each does something to all connections that there are now.
func (w *wires) each(do func(w *wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		do(one)
	}
}

// A worker whose connections all die without a word goes on with new ones.
func TestWorkerDeadConnections(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := &wires{}
	pool := h.db.Pool(t, pgtest.MaxConns(10), pgtest.Configure(func(c *pgxpool.Config) {
		w.dial, c.ConnConfig.DialFunc = c.ConnConfig.DialFunc, w.connect
	}))
	t.Cleanup(func() { w.each(func(w *wire) { w.Close() }) })
	client, err := pgqueue.NewClient(t.Context(), pool, pgqueue.Config{Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	worker := (&house{Client: client, db: h.db, listen: h.listen}).quick()
	pgqueue.Handle(worker, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	start(t, worker)
	h.awaitStatus(t, h.enqueue(t, 1), pgqueue.Successful)

	// A full pool, so that whatever the worker does next meets a dead connection.
	var held []*pgxpool.Conn
	for range 8 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	w.each(func(w *wire) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dead = true
	})
	h.awaitStatus(t, h.enqueue(t, 2), pgqueue.Successful)
}

// A worker whose connections are cut works on at once, however long its lease is.
func TestWorkerCutConnections(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	worker := h.quick(func(c *pgqueue.WorkerConfig) { c.Lease, c.ReapInterval = 5*time.Minute, time.Minute })
	pgqueue.Handle(worker, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	start(t, worker)
	h.awaitStatus(t, h.enqueue(t, 1), pgqueue.Successful)
	admin := h.db.Conn(t)
	for n := range 3 {
		if _, err := admin.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
		var receipt pgqueue.Receipt
		h.retry(t, func() (err error) {
			receipt, err = plainJob.Enqueue(t.Context(), h.Client, job{n + 2})
			return err
		})
		h.awaitSuccess(t, receipt.TaskID)
	}
}

// retry is for calls that may meet a connection that was cut.
func (h *house) retry(t *testing.T, call func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		if err = call(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func (h *house) awaitSuccess(t *testing.T, id pgqueue.TaskID) {
	t.Helper()
	h.retry(t, func() error {
		task, err := h.Task(t.Context(), id)
		if err == nil && task.Status != pgqueue.Successful {
			err = fmt.Errorf("task is %s", task.Status)
		}
		return err
	})
}
