package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

const (
	bulk      = 1000
	bulkHeld  = 20_000    // pending tasks that duplicates are taken from
	bulkFirst = 1_000_000 // the number of the first new one
)

// W4: bulk enqueue of 1,000 tasks a call.
func workload4() workload {
	return workload{"W4", "bulk of 1,000", func(e *env) []group {
		var groups []group
		for _, half := range []bool{false, true} {
			name, created := "1,000 new keys a call, ", all
			if half {
				name, created = "1,000 keys a call, half of them duplicates, ", func(sent int) int { return sent / 2 }
			}
			for _, connections := range []int{1, 8} {
				g := group{Name: name + connectionText(connections), rounds: e.rounds}
				for _, s := range []system{pgqueueSystem(), riverSystem(), bareSystem()} {
					g.Variants = append(g.Variants, e.enqueueVariant(enqueueCell{
						system: s, connections: connections, prepare: prepareBulk,
						call: func(q queue) call { return bulkCall(q, half) }, created: created,
					}))
				}
				groups = append(groups, g)
			}
		}
		return groups
	}}
}

func prepareBulk(ctx context.Context, q queue) (int, error) {
	total := 0
	err := batches(bulkHeld, func(from, to int) error {
		created, err := q.enqueueMany(ctx, numbers(from, to))
		total += created
		return err
	})
	return total, err
}

// bulkCall puts the duplicates first and in order: otherwise those systems that lock what they find would deadlock.
func bulkCall(q queue, half bool) call {
	var next atomic.Int64
	return func(ctx context.Context, random *rand.Rand) (tally, error) {
		fresh := bulk
		keys := make([]int, 0, bulk)
		if half {
			fresh = bulk / 2
			from := random.IntN(bulkHeld - bulk/2)
			keys = append(keys, numbers(from, from+bulk/2)...)
		}
		last := bulkFirst + int(next.Add(int64(fresh)))
		keys = append(keys, numbers(last-fresh, last)...)
		created, err := q.enqueueMany(ctx, keys)
		return tally{len(keys), created}, err
	}
}
