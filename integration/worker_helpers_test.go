package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// patience bounds waits for things that happen in milliseconds on an idle machine.
const patience = 20 * time.Second

type job struct {
	N int `json:"n"`
}

var plainJob = pgqueue.Define("job", pgqueue.TaskOptions[job]{})

// house is a database with a client.
type house struct {
	*pgqueue.Client

	db     *pgtest.DB
	listen *pgx.ConnConfig
}

func newHouse(t *testing.T, options ...pgtest.Option) *house {
	t.Helper()
	db := pgtest.New(t, options...)
	client, err := pgqueue.NewClient(t.Context(), db.Pool(t, pgtest.MaxConns(8)), pgqueue.Config{Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Client: client, db: db}
	if os.Getenv(pgtest.PoolerURLEnv) != "" { // no notification comes through one
		if h.listen, err = pgx.ParseConfig(db.URL()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// testLog writes to the test's log. Not through t.Log: handlers that are left behind may log after the test.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// quick makes a worker that notices things fast.
func (h *house) quick(change ...func(*pgqueue.WorkerConfig)) *pgqueue.Worker {
	config := pgqueue.WorkerConfig{
		Name: "quick", Concurrency: 4, Lease: 600 * time.Millisecond, PollInterval: 50 * time.Millisecond,
		ReapInterval: 100 * time.Millisecond, ListenConfig: h.listen,
	}
	for _, c := range change {
		c(&config)
	}
	return pgqueue.NewWorker(h.Client, config)
}

// start runs a worker; stop drains it.
func start(t *testing.T, w *pgqueue.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

func (h *house) enqueue(t *testing.T, n int, options ...pgqueue.EnqueueOption) pgqueue.TaskID {
	t.Helper()
	receipt, err := plainJob.Enqueue(t.Context(), h.Client, job{n}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.TaskID
}

// await polls the database until the task satisfies a condition.
func (h *house) await(t *testing.T, id pgqueue.TaskID, what string, is func(*pgqueue.TaskInfo) bool) *pgqueue.TaskInfo {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		task, err := h.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if is(task) {
			return task
		}
		if time.Now().After(deadline) {
			text, _ := json.Marshal(task)
			t.Fatalf("task is not %s in time: %s", what, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (h *house) awaitStatus(t *testing.T, id pgqueue.TaskID, status pgqueue.TaskStatus) *pgqueue.TaskInfo {
	t.Helper()
	return h.await(t, id, string(status), func(task *pgqueue.TaskInfo) bool { return task.Status == status })
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s does not happen", what)
	}
	return v
}

func (h *house) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.db.Conn(t).Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// awaitRow polls until a query returns a row.
func (h *house) awaitRow(t *testing.T, sql string, into ...any) {
	t.Helper()
	conn := h.db.Conn(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := conn.QueryRow(t.Context(), sql).Scan(into...)
		if err == nil {
			return
		}
		if !errors.Is(err, pgx.ErrNoRows) || time.Now().After(deadline) {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
