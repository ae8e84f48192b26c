package main

import (
	"context"
	"fmt"
)

// W9: how the cost of an enqueue and of a claim grows with what the tables hold: settled tasks, keys and windows of each number.
// Each level has a database of its own, so that the levels take turns.
func workload9() workload {
	return workload{"W9", "growth with history", func(e *env) []group {
		// After a checkpoint the first write to each page is logged whole. First without one since the tables were made, as in the
		// long run on a busy server, then right after one: the worst case.
		enqueues := group{Name: steadyEnqueue, rounds: e.slowRounds}
		cold := group{Name: "unique enqueue, 1 connection, by history rows, right after a checkpoint", rounds: e.slowRounds}
		claims := group{Name: "claim and complete by history rows", rounds: e.slowRounds}
		for _, rows := range e.history {
			for _, s := range []struct {
				system
				fill func(ctx context.Context, i *instance, rows int) error
			}{{pgqueueSystem(), fillPgqueue}, {bareSystem(), fillBare}} {
				h := history{s.system, fmt.Sprintf(" W9 %d", rows), rows, s.fill}
				name := historyName(s.name, rows)
				enqueues.Variants = append(enqueues.Variants, e.historyVariant(name, h, false))
				cold.Variants = append(cold.Variants, e.historyVariant(name, h, true))
				claims.Variants = append(claims.Variants, variant{Name: name, run: func(ctx context.Context, _ int) (sample, error) {
					if err := e.fill(ctx, h); err != nil {
						return sample{}, err
					}
					return e.work(ctx, workCell{system: h.system, label: h.label, tasks: e.tasks, mark: 1000, keep: true})
				}})
			}
		}
		return []group{enqueues, cold, claims}
	}}
}

const steadyEnqueue = "unique enqueue, 1 connection, by history rows"

func (e *env) historyVariant(name string, h history, cold bool) variant {
	return variant{Name: name, run: func(ctx context.Context, round int) (sample, error) {
		if err := e.fill(ctx, h); err != nil {
			return sample{}, err
		}
		return e.enqueueOnHistory(ctx, h, round, cold)
	}}
}

func historyName(system string, rows int) string { return fmt.Sprintf("%s, %d", system, rows) }
