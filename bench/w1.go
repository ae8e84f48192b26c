package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// W1: unique enqueue of new keys, one a call.
func workload1() workload {
	return workload{"W1", "unique enqueue, new keys", func(e *env) []group {
		var groups []group
		for _, connections := range []int{1, 8} {
			g := group{Name: "new keys, " + connectionText(connections), rounds: e.rounds}
			for _, s := range []system{pgqueueSystem(), pgqueueSQLSystem(), riverSystem(), bareSystem(), bareInsertSystem()} {
				if e.budget > 0 && s.name == bareInsertSystem().name {
					continue // it differs little from bare
				}
				c := enqueueCell{system: s, connections: connections, call: func(q queue) call { return newKeys(q, new(atomic.Int64)) }, created: all}
				g.Variants = append(g.Variants, e.enqueueVariant(c))
			}
			groups = append(groups, g)
		}
		return groups
	}}
}

func (e *env) enqueueVariant(c enqueueCell) variant {
	return variant{Name: c.system.name, run: func(ctx context.Context, round int) (sample, error) { return e.enqueue(ctx, c, round) }}
}

func newKeys(q queue, next *atomic.Int64) call {
	return func(ctx context.Context, _ *rand.Rand) (tally, error) {
		created, err := q.enqueue(ctx, int(next.Add(1)))
		return one(created), err
	}
}

func one(created bool) tally {
	if created {
		return tally{1, 1}
	}
	return tally{1, 0}
}

func all(sent int) int { return sent }

func none(int) int { return 0 }

func connectionText(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}
