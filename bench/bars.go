package main

import (
	"fmt"
	"math"
	"strings"
)

// bar is a target of the project and what this run measured for it.
type bar struct {
	Workload string   `json:"workload"`
	What     string   `json:"what"`
	Target   string   `json:"target"`
	Measured *float64 `json:"measured"` // nil where the run has no figure for it
	Met      bool     `json:"met"`
}

// bars compares with the targets what of them this run measured.
func bars(groups []group) []bar {
	var list []bar
	add := func(g group, what string, value float64, atLeast bool, target float64) {
		b := bar{Workload: g.Workload, What: g.Name + ": " + what, Target: fmt.Sprintf("at most %g", target)}
		if atLeast {
			b.Target = fmt.Sprintf("at least %g", target)
		}
		if !math.IsNaN(value) {
			b.Measured = &value
			b.Met = value <= target
			if atLeast {
				b.Met = value >= target
			}
		}
		list = append(list, b)
	}
	// of compares the queue's figure with another's.
	of := func(g group, other string, m measure, atLeast bool, target float64, what string) {
		add(g, fmt.Sprintf("%s, pgqueue / %s", what, other), ratio(g.samples(mine), g.samples(other), m), atLeast, target)
	}
	for _, g := range groups {
		switch g.Workload {
		case "W1":
			of(g, limit, rate, true, 0.75, "rate")
			of(g, peer, rate, true, 2, "rate")
			of(g, limit, wal, false, 1.7, "WAL")
		case "W2":
			of(g, limit, rate, true, 0.75, "rate")
			of(g, peer, rate, true, 8, "rate")
			add(g, "WAL bytes a call beyond the bare one's", median(pick(g.samples(mine), wal))-median(pick(g.samples(limit), wal)), false, 1)
		case "W3":
			of(g, bareHeldSystem().name, rate, true, 0.7, "rate")
			of(g, peer, rate, true, 2.5, "rate")
		case "W4":
			of(g, limit, rate, true, 0.5, "rate")
			of(g, peer, rate, true, 1.3, "rate")
		case "W5":
			of(g, peer, rate, true, 2.6, "rate")
			of(g, limit, rate, true, 0.4, "rate")
			add(g, "peak memory of the worker, MB", median(pick(g.samples(mine), extra("worker_peak_bytes")))/1e6, false, 60)
		case "W6":
			of(g, limit, extra("p50_ms"), false, 1.5, "p50")
			add(g, "p99, ms", median(pick(g.samples(mine), extra("p99_ms"))), false, 3)
		case "W10":
			add(g, "p99 beside the pruners / before", median(pick(g.samples(mine), extra("p99_ms")))/median(pick(g.samples(mine), extra("baseline_p99_ms"))), false, 2)
		case "W7":
			add(g, "rate, with / alone", ratio(g.samples(mine), g.samples(mine+alone), extra("handlers_per_second")), true, 0.95)
		case "W8":
			add(g, "rate of the last window, with / alone", ratio(g.samples(mine), g.samples(mine+alone), lastWindow), true, 0.85)
		case "W9":
			if g.Name != steadyEnqueue && !strings.HasPrefix(g.Name, "claim") {
				continue
			}
			low, high := growth(g, mine)
			add(g, "rate, most rows / fewest", ratio(high, low, rate), true, 0.8)
		}
	}
	return list
}

const (
	mine  = "pgqueue"
	peer  = "River"
	limit = "bare"
)

// growth returns the samples of a system with the fewest and with the most rows.
func growth(g group, system string) (low, high []sample) {
	for _, v := range g.Variants {
		if !strings.HasPrefix(v.Name, system+", ") {
			continue
		}
		if low == nil {
			low = v.Samples
		}
		high = v.Samples
	}
	return low, high
}
