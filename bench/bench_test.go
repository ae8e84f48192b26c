package main

import (
	"context"
	"math"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median of three: %v", m)
	}
	if m := median([]float64{4, 1, 2, 9}); m != 3 {
		t.Errorf("median of four: %v", m)
	}
	if p := percentile([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 50); p != 5 {
		t.Errorf("50th percentile: %v", p)
	}
	if p := percentile([]float64{1, 2, 3}, 99); p != 3 {
		t.Errorf("99th percentile: %v", p)
	}
	// A round in which both were slow counts as much as the others.
	slow, fast := []sample{{Rate: 10}, {Rate: 1}, {Rate: 30}}, []sample{{Rate: 20}, {Rate: 2}, {Rate: 60}}
	if r := ratio(slow, fast, rate); r != 0.5 {
		t.Errorf("ratio: %v", r)
	}
	if r := ratio(slow, nil, rate); !math.IsNaN(r) {
		t.Errorf("ratio to nothing: %v", r)
	}
	for value, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567", -1500: "-1,500"} {
		if got := number(value, 0); got != want {
			t.Errorf("number(%v) = %s", value, got)
		}
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("w5, W1")
	if err != nil || len(chosen) != 2 || chosen[0].id != "W1" || chosen[1].id != "W5" {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := choose("W1,W10"); err == nil {
		t.Error("W10 was accepted")
	}
}

// TestAdapters lets every system do a little of all that the workloads ask of it.
func TestAdapters(t *testing.T) {
	ctx := t.Context()
	e, err := newEnv(ctx, options{quick: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, s := range systems() {
		t.Run(s.name, func(t *testing.T) {
			i, err := e.instance(ctx, s, "")
			if err != nil {
				t.Fatal(err)
			}
			pool, q, err := i.connect(ctx, workerConnections)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if s.name != "gue" && s.name != bareInsertSystem().name {
				checkUnique(ctx, t, q)
			}
			if err := i.empty(ctx); err != nil {
				t.Fatal(err)
			}
			checkCount(ctx, t, q, 0, 0)
			if s.name != bareHeldSystem().name { // it has no due times
				if err := q.load(ctx, 2*loadBatch, true); err != nil {
					t.Fatal(err)
				}
				checkCount(ctx, t, q, 2*loadBatch, 0)
				workOff(ctx, t, q, loadBatch)
				checkCount(ctx, t, q, loadBatch, loadBatch)
			}
		})
	}
}

func checkUnique(ctx context.Context, t *testing.T, q queue) {
	for _, want := range []bool{true, false} {
		if created, err := q.enqueue(ctx, 1); err != nil || created != want {
			t.Fatalf("enqueue: created %v, %v", created, err)
		}
	}
	if _, held := q.(*bareHeldQueue); held {
		return
	}
	if created, err := q.enqueueMany(ctx, []int{1, 2, 3}); err != nil || created != 2 {
		t.Fatalf("enqueueMany: created %d, %v", created, err)
	}
	checkCount(ctx, t, q, 3, 0)
}

func checkCount(ctx context.Context, t *testing.T, q queue, pending, settled int) {
	t.Helper()
	found, err := q.count(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if found.settled == noHistory {
		settled = noHistory
	}
	if want := (counts{pending, settled}); found != want {
		t.Fatalf("counts %+v, not %+v", found, want)
	}
}

func workOff(ctx context.Context, t *testing.T, q queue, tasks int) {
	working, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	handled := make(chan struct{}, tasks+workerConcurrency)
	ended := make(chan error, 1)
	go func() { ended <- q.work(working, workConfig{workerConcurrency, func() { handled <- struct{}{} }}) }()
	for range tasks {
		select {
		case <-handled:
		case err := <-ended:
			t.Fatalf("the worker ended: %v", err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
