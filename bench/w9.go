package main

import (
	"context"
	"fmt"
)

// W9: how the cost of an enqueue and of a claim grows with what the tables hold: settled tasks, keys and windows of each number.
// Each level has a database of its own, so that the levels take turns.
func workload9() workload {
	return workload{"W9", "growth with history", func(e *env) []group {
		claims := group{Name: "claim and complete by history rows", rounds: e.slowRounds}
		enqueues := group{Name: "unique enqueue, 1 connection, by history rows", rounds: e.slowRounds}
		for _, rows := range e.history {
			for _, s := range []struct {
				system
				fill func(ctx context.Context, i *instance, rows int) error
			}{{pgqueueSystem(), fillPgqueue}, {bareSystem(), fillBare}} {
				h := history{s.system, fmt.Sprintf(" W9 %d", rows), rows, s.fill}
				name := historyName(s.name, rows)
				claims.Variants = append(claims.Variants, variant{Name: name, run: func(ctx context.Context, _ int) (sample, error) {
					if err := e.fill(ctx, h); err != nil {
						return sample{}, err
					}
					return e.work(ctx, workCell{system: h.system, label: h.label, tasks: e.tasks, mark: 1000, keep: true})
				}})
				enqueues.Variants = append(enqueues.Variants, variant{Name: name, run: func(ctx context.Context, round int) (sample, error) {
					if err := e.fill(ctx, h); err != nil {
						return sample{}, err
					}
					return e.enqueueOnHistory(ctx, h, round)
				}})
			}
		}
		return []group{claims, enqueues} // in this order: what the enqueues leave pending would be claimed
	}}
}

func historyName(system string, rows int) string { return fmt.Sprintf("%s, %d", system, rows) }
