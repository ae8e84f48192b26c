package main

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// W2: enqueues that find their key held by a pending task.
func workload2() workload {
	return workload{"W2", "duplicates of pending tasks", func(e *env) []group {
		var groups []group
		for _, keys := range []int{1, 1000} {
			name := "duplicates of 1 task, 8 connections"
			if keys > 1 {
				name = fmt.Sprintf("duplicates of %d tasks, 8 connections", keys)
			}
			g := group{Name: name, rounds: e.rounds}
			for _, s := range []system{pgqueueSystem(), pgqueueSQLSystem(), riverSystem(), bareSystem()} {
				g.Variants = append(g.Variants, e.enqueueVariant(enqueueCell{
					system: s, connections: 8, created: none,
					prepare: func(ctx context.Context, q queue) (int, error) { return q.enqueueMany(ctx, numbers(0, keys)) },
					call: func(q queue) call {
						return func(ctx context.Context, random *rand.Rand) (tally, error) {
							created, err := q.enqueue(ctx, random.IntN(keys))
							return one(created), err
						}
					},
				}))
			}
			groups = append(groups, g)
		}
		return groups
	}}
}

func numbers(from, to int) []int {
	list := make([]int, 0, to-from)
	for n := from; n < to; n++ {
		list = append(list, n)
	}
	return list
}
