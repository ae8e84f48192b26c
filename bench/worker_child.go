package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// workerEnv makes this program the worker process of a cell; it holds a workerSpec.
const workerEnv = "PGQUEUE_BENCH_WORKER"

// workerConnections is what each worker's pool may open at most.
const workerConnections = 20

type workerSpec struct {
	System      string        `json:"system"`
	URL         string        `json:"url"`
	Concurrency int           `json:"concurrency"`
	Warm        int           `json:"warm"` // tasks to handle, with a worker of their own, before it is ready
	Mark        int           `json:"mark"` // report the time at each so many tasks
	Hold        time.Duration `json:"hold"` // how long a handler takes
}

// event is what the worker process says, a line of JSON each.
type event struct {
	Event  string        `json:"event"` // ready, mark, end
	Tasks  int           `json:"tasks,omitempty"`
	At     int64         `json:"at,omitempty"` // Unix time in nanoseconds
	CPU    time.Duration `json:"cpu,omitempty"`
	Memory int64         `json:"memory,omitempty"`
	Peak   int64         `json:"peak,omitempty"`
}

const (
	eventReady = "ready"
	eventMark  = "mark"
	eventEnd   = "end"
)

// workerMain handles the warm-up's tasks, says that it is ready, waits for a line, works until the next line (or the end of its
// input, as when its parent is gone), and says what it took.
func workerMain(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var spec workerSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("%s: %w", workerEnv, err)
	}
	s, err := systemNamed(spec.System)
	if err != nil {
		return err
	}
	pool, err := openPool(ctx, spec.URL, workerConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	q, err := s.open(ctx, pool)
	if err != nil {
		return err
	}
	if err := warmWorker(ctx, q, spec); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}

	lines := bufio.NewScanner(in)
	events := json.NewEncoder(out)
	if err := events.Encode(event{Event: eventReady}); err != nil {
		return err
	}
	if !lines.Scan() {
		return errors.New("the parent is gone")
	}
	before, err := clientCPU()
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		lines.Scan()
		stop()
	}()
	var handled atomic.Int64
	marks := make(chan event, 1000)
	marked := make(chan error, 1)
	go func() {
		var failed error
		for m := range marks {
			failed = errors.Join(failed, events.Encode(m))
		}
		marked <- failed
	}()
	err = q.work(working, workConfig{spec.Concurrency, func() {
		n := int(handled.Add(1))
		if n == 1 || n%spec.Mark == 0 {
			marks <- event{Event: eventMark, Tasks: n, At: time.Now().UnixNano()}
		}
		hold(spec.Hold)
	}})
	close(marks)
	if err := errors.Join(err, <-marked); err != nil {
		return err
	}
	after, err := clientCPU()
	if err != nil {
		return err
	}
	now, peak, err := memory()
	if err != nil {
		return err
	}
	return events.Encode(event{Event: eventEnd, Tasks: int(handled.Load()), CPU: after - before, Memory: now, Peak: peak})
}

func warmWorker(ctx context.Context, q queue, spec workerSpec) error {
	if spec.Warm == 0 {
		return nil
	}
	working, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var handled atomic.Int64
	err := q.work(working, workConfig{spec.Concurrency, func() {
		if int(handled.Add(1)) == spec.Warm {
			stop()
		}
	}})
	if n := int(handled.Load()); err == nil && n < spec.Warm {
		return fmt.Errorf("%d tasks were handled of at least %d", n, spec.Warm)
	}
	return err
}

func hold(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}
