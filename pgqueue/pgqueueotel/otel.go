// Package pgqueueotel gives a pgqueue client OpenTelemetry traces and metrics:
//
//	hooks, err := pgqueueotel.New(pgqueueotel.Config{})
//	client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Hooks: hooks})
//
// An enqueue is a producer span whose context travels in the task's metadata. An execution is a consumer span in a trace of its own,
// linked to the enqueue: between them may lie days, and one enqueue may have many executions.
package pgqueueotel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Config says where traces and metrics go. The zero value takes OpenTelemetry's global providers.
type Config struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Propagator writes the trace context. Defaults to W3C Trace Context, whose members the queue leaves out when it compares requests.
	Propagator propagation.TextMapPropagator
}

const scope = "github.com/pgqueue/pgqueue/pgqueue/pgqueueotel"

type hooks struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator

	enqueued metric.Int64Counter
	executed metric.Int64Counter
	claimed  metric.Int64Counter
	waited   metric.Float64Histogram
	took     metric.Float64Histogram
	claim    metric.Float64Histogram
	write    metric.Float64Histogram
}

// New makes hooks for pgqueue.Config.
func New(config Config) (pgqueue.Hooks, error) {
	if config.TracerProvider == nil {
		config.TracerProvider = otel.GetTracerProvider()
	}
	if config.MeterProvider == nil {
		config.MeterProvider = otel.GetMeterProvider()
	}
	if config.Propagator == nil {
		config.Propagator = propagation.TraceContext{}
	}
	h := &hooks{tracer: config.TracerProvider.Tracer(scope), propagator: config.Propagator}
	if err := h.instruments(config.MeterProvider.Meter(scope)); err != nil {
		return pgqueue.Hooks{}, err
	}
	return pgqueue.Hooks{
		Enqueue: h.enqueue, EnqueueMany: h.enqueueMany, Execute: h.execute, Claimed: h.onClaimed, Written: h.onWritten,
	}, nil
}

func (h *hooks) instruments(m metric.Meter) error {
	var errs []error
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, what string) metric.Float64Histogram {
		c, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	h.enqueued = counter("pgqueue.enqueued", "{task}", "Enqueues by task and outcome: CREATED, REUSED or the SQLSTATE of the refusal")
	h.executed = counter("pgqueue.executed", "{execution}", "Executions by task and outcome: success, failure or broken_off")
	h.claimed = counter("pgqueue.claimed", "{task}", "Tasks claimed")
	h.waited = seconds("pgqueue.wait.duration", "From when a task was due to its claim, by the server's clock")
	h.took = seconds("pgqueue.execution.duration", "Of a handler")
	h.claim = seconds("pgqueue.claim.duration", "Of a claim")
	h.write = seconds("pgqueue.write.duration", "Of writing outcomes")
	return errors.Join(errs...)
}

// Observe reports the number of tasks of each queue by state as the gauge pgqueue.tasks, until the registration is undone. Each
// collection counts all tasks of the client's namespace.
func Observe(provider metric.MeterProvider, client *pgqueue.Client) (metric.Registration, error) {
	m := provider.Meter(scope)
	gauge, err := m.Int64ObservableGauge("pgqueue.tasks", metric.WithUnit("{task}"), metric.WithDescription("Tasks by queue and state"))
	if err != nil {
		return nil, fmt.Errorf("pgqueueotel: %w", err)
	}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		stats, err := client.Stats(ctx)
		if err != nil {
			return err
		}
		for _, s := range stats {
			for state, n := range map[string]int64{
				"ready": s.Ready, "scheduled": s.Scheduled, "running": s.Running, "successful": s.Successful,
				"failed": s.Failed, "lost": s.Lost, "discarded": s.Discarded,
			} {
				o.ObserveInt64(gauge, n, metric.WithAttributes(attribute.String("pgqueue.queue", s.Queue), attribute.String("pgqueue.state", state)))
			}
		}
		return nil
	}, gauge)
}

func (h *hooks) enqueue(ctx context.Context, r *pgqueue.Request) (context.Context, func(pgqueue.Receipt, error)) {
	name := r.TaskName
	ctx, span := h.tracer.Start(ctx, "enqueue "+name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(taskName(name)))
	h.inject(ctx, r)
	return ctx, func(receipt pgqueue.Receipt, err error) {
		h.count(ctx, name, receipt, err)
		if err == nil {
			span.SetAttributes(attribute.String("pgqueue.task.id", receipt.TaskID.String()), attribute.String("pgqueue.disposition", string(receipt.Disposition)))
		}
		end(span, err)
	}
}

func (h *hooks) enqueueMany(ctx context.Context, requests []pgqueue.Request) (context.Context, func([]pgqueue.Outcome, error)) {
	ctx, span := h.tracer.Start(ctx, "enqueue batch", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(requests))))
	for i := range requests {
		h.inject(ctx, &requests[i])
	}
	return ctx, func(outcomes []pgqueue.Outcome, err error) {
		for i, r := range requests {
			switch {
			case err != nil:
				h.count(ctx, r.TaskName, pgqueue.Receipt{}, err)
			case i < len(outcomes):
				h.count(ctx, r.TaskName, outcomes[i].Receipt, outcomes[i].Err)
			}
		}
		end(span, err)
	}
}

func (h *hooks) inject(ctx context.Context, r *pgqueue.Request) {
	carrier := propagation.MapCarrier{}
	h.propagator.Inject(ctx, carrier)
	r.SetTrace(carrier)
}

func (h *hooks) count(ctx context.Context, name string, receipt pgqueue.Receipt, err error) {
	outcome := string(receipt.Disposition)
	var refused *pgqueue.Error
	switch {
	case errors.As(err, &refused):
		outcome = refused.Code
	case err != nil:
		outcome = "error"
	}
	h.enqueued.Add(ctx, 1, metric.WithAttributes(taskName(name), attribute.String("pgqueue.outcome", outcome)))
}

func (h *hooks) execute(ctx context.Context, e pgqueue.Execution) (context.Context, func(pgqueue.ExecutionResult)) {
	attributes := []attribute.KeyValue{taskName(e.Name), attribute.String("pgqueue.queue", e.Queue)}
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...),
		trace.WithAttributes(attribute.String("pgqueue.task.id", e.ID.String()), attribute.Int("pgqueue.attempt", e.Attempt)),
	}
	if from := h.extract(e.Metadata); from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := h.tracer.Start(ctx, "execute "+e.Name, options...)
	h.waited.Record(ctx, e.Waited.Seconds(), metric.WithAttributes(attributes...))
	return ctx, func(r pgqueue.ExecutionResult) {
		outcome := "success"
		switch {
		case r.BrokenOff:
			outcome = "broken_off"
		case r.Err != nil:
			outcome = "failure"
		}
		set := metric.WithAttributes(append(attributes, attribute.String("pgqueue.outcome", outcome))...)
		h.executed.Add(ctx, 1, set)
		h.took.Record(ctx, r.Took.Seconds(), set)
		end(span, r.Err)
	}
}

// extract reads the enqueue's span from a task's metadata.
func (h *hooks) extract(metadata json.RawMessage) trace.SpanContext {
	members := map[string]any{}
	if metadata == nil || json.Unmarshal(metadata, &members) != nil {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{}
	for name, value := range members {
		if text, ok := value.(string); ok {
			carrier[name] = text
		}
	}
	return trace.SpanContextFromContext(h.propagator.Extract(context.Background(), carrier))
}

func (h *hooks) onClaimed(ctx context.Context, worker string, tasks int, took time.Duration, err error) {
	set := metric.WithAttributes(attribute.String("pgqueue.worker", worker), attribute.Bool("error", err != nil))
	h.claimed.Add(ctx, int64(tasks), set)
	h.claim.Record(ctx, took.Seconds(), set)
}

func (h *hooks) onWritten(ctx context.Context, worker string, _ int, took time.Duration, err error) {
	h.write.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("pgqueue.worker", worker), attribute.Bool("error", err != nil)))
}

func taskName(name string) attribute.KeyValue { return attribute.String("pgqueue.task.name", name) }

func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
