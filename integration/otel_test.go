package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueue/pgqueueotel"
)

// An execution's span is linked to its enqueue's, and a repeated request with a window key is no conflict although its trace differs.
func TestOpenTelemetry(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	spans, metrics := tracetest.NewSpanRecorder(), metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(metrics))
	hooks, err := pgqueueotel.New(pgqueueotel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), MeterProvider: provider,
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := pgqueue.NewClient(t.Context(), h.db.Pool(t), pgqueue.Config{Hooks: hooks, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgqueueotel.Observe(provider, client); err != nil {
		t.Fatal(err)
	}
	once := pgqueue.WithWindowKey("w", time.Hour)
	first, err := plainJob.Enqueue(t.Context(), client, job{1}, once, pgqueue.WithMetadata([]byte(`{"who": "me"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := plainJob.Enqueue(t.Context(), client, job{1}, once, pgqueue.WithMetadata([]byte(`{"who": "me"}`))); err != nil || again.TaskID != first.TaskID {
		t.Fatalf("receipt %+v, %v", again, err)
	}
	if _, err := plainJob.Enqueue(t.Context(), client, job{1}, once); !errors.Is(err, pgqueue.ErrConflict) {
		t.Fatalf("other metadata: %v", err)
	}
	if _, err := client.EnqueueMany(t.Context(), []pgqueue.Request{{TaskName: "job", Payload: []byte(`{"n": 2}`)}}, pgqueue.BatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w := pgqueue.NewWorker(client, pgqueue.WorkerConfig{ExitWhenEmpty: true})
	pgqueue.Handle(w, plainJob, func(_ context.Context, task *pgqueue.Task[job]) error {
		if task.Args.N == 2 {
			return pgqueue.Discard(errors.New("no"))
		}
		return nil
	})
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	byName := map[string][]sdktrace.ReadOnlySpan{}
	for _, s := range spans.Ended() {
		byName[s.Name()] = append(byName[s.Name()], s)
	}
	runs, enqueues := byName["execute job"], byName["enqueue job"]
	if len(runs) != 2 || len(enqueues) != 3 || len(byName["enqueue batch"]) != 1 {
		t.Fatalf("spans: %v", byName)
	}
	linked := map[trace.SpanID]bool{}
	for _, run := range runs {
		if run.Parent().IsValid() || len(run.Links()) != 1 {
			t.Errorf("run %v", run)
			continue
		}
		linked[run.Links()[0].SpanContext.SpanID()] = true
	}
	if !linked[enqueues[0].SpanContext().SpanID()] || !linked[byName["enqueue batch"][0].SpanContext().SpanID()] {
		t.Errorf("runs are linked to %v", linked)
	}
	var collected metricdata.ResourceMetrics
	if err := metrics.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				sums[m.Name] += p.Value
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				sums[m.Name] += p.Value
			}
		}
	}
	if sums["pgqueue.enqueued"] != 4 || sums["pgqueue.executed"] != 2 || sums["pgqueue.claimed"] != 2 || sums["pgqueue.tasks"] != 2 {
		t.Errorf("metrics: %v", sums)
	}
}

// CompleteTx ends the task together with what the handler writes, and a handler that does not commit has failed.
func TestCompleteTx(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.exec(t, "create table public.ledger (n int)")
	pool := h.db.Pool(t)
	// Each open transaction keeps a connection, and a pooler may have two: the worker needs one besides.
	w := h.quick(func(c *pgqueue.WorkerConfig) { c.Concurrency = 1 })
	pgqueue.Handle(w, plainJob, func(ctx context.Context, task *pgqueue.Task[job]) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if err := task.SetProgress(ctx, 0.5); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "insert into public.ledger values ($1)", task.Args.N); err != nil {
			return err
		}
		if err := task.SetResult("written"); err != nil {
			return err
		}
		if err := task.CompleteTx(ctx, tx); err != nil {
			return err
		}
		if task.Args.N == 2 {
			return nil // forgets to commit
		}
		return tx.Commit(ctx)
	})
	good, bad := h.enqueue(t, 1), h.enqueue(t, 2, pgqueue.WithMaxAttempts(1))
	start(t, w)
	if task := h.awaitStatus(t, good, pgqueue.Successful); string(task.Result) != `"written"` || string(task.Progress) != "0.5" {
		t.Errorf("task %+v", task)
	}
	h.awaitStatus(t, bad, pgqueue.Failed)
	attempts, err := h.Attempts(t.Context(), good)
	if err != nil || len(attempts) != 0 {
		t.Errorf("attempts of the good one: %+v, %v", attempts, err)
	}
	var sum int
	err = pool.QueryRow(t.Context(), "select sum(n) from public.ledger").Scan(&sum)
	if err != nil || sum != 1 {
		t.Errorf("the ledger has %d, %v", sum, err)
	}
}
