package main

import "time"

// scale is how much work the cells do.
type scale struct {
	rounds        int
	slowRounds    int           // of the workloads that need much preparation
	latencyRounds int           // W6
	budget        time.Duration // of the whole run, before it does with fewer rounds; 0 for no limit
	cell, warm    time.Duration // of the workloads that run for a time
	tasks         int           // W5
	gueTasks      int           // gue is slow, and its figures are per task all the same
	latencies     int           // W6
	pending       int           // W7
	snapshot      int           // W8
	history       []int         // W9
	pruned        int           // W10
}

func newScale(o options) scale {
	s := scale{
		rounds: 5, slowRounds: 3, latencyRounds: 3, cell: 4 * time.Second, warm: time.Second,
		tasks: 20_000, gueTasks: 20_000, latencies: 100, pending: 1_000_000, snapshot: 100_000,
		history: []int{10_000, 1_000_000, 10_000_000}, pruned: 1_000_000,
	}
	if o.quick {
		s = scale{
			rounds: 3, slowRounds: 1, latencyRounds: 1, budget: 215 * time.Second, cell: 500 * time.Millisecond, warm: 200 * time.Millisecond,
			tasks: 20_000, gueTasks: 4_000, latencies: 60, pending: 200_000, snapshot: 30_000,
			history: []int{10_000, 200_000}, pruned: 50_000,
		}
	}
	if o.rounds > 0 {
		s.rounds, s.slowRounds, s.latencyRounds, s.budget = o.rounds, o.rounds, o.rounds, 0
	}
	return s
}

// weights share the budget out: about the seconds that each workload takes in the end.
var weights = map[string]float64{"W1": 24, "W2": 22, "W3": 14, "W4": 40, "W5": 28, "W6": 15, "W7": 20, "W8": 26, "W9": 28, "W10": 12}

// budgetOf is what the first of the workloads that are still to run may take of the time that is left.
func (s scale) budgetOf(left []workload, elapsed time.Duration) time.Duration {
	if s.budget == 0 {
		return 0
	}
	total := 0.0
	for _, w := range left {
		total += weights[w.id]
	}
	return max(time.Millisecond, time.Duration(float64(s.budget-elapsed)*weights[left[0].id]/total))
}
