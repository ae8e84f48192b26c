package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// workload is one of the ten; its groups are measured one after the other.
type workload struct {
	id, title string
	groups    func(e *env) []group
}

// group are cells that do the same work, and so can be compared.
type group struct {
	Workload string    `json:"workload"`
	Name     string    `json:"name"`
	Variants []variant `json:"variants"`
	rounds   int
}

// variant is one cell of a group: a system, or a system in a certain state.
type variant struct {
	Name    string   `json:"name"`
	Samples []sample `json:"samples"`
	run     func(ctx context.Context, round int) (sample, error)
}

func workloads() []workload {
	return []workload{workload1(), workload2(), workload3(), workload4(), workload5(), workload6(), workload7(), workload8(), workload9(), workload10()}
}

// run measures in rounds, A B C, B C A, C A B: what drifts on the machine meets all alike. No round but the first of a group
// begins that would not end in its share of the budget, if there is one.
func (e *env) run(ctx context.Context, w workload, budget time.Duration) ([]group, error) {
	groups := w.groups(e)
	end := time.Now().Add(budget)
	for g := range groups {
		group := &groups[g]
		group.Workload = w.id
		share := time.Now().Add(time.Until(end) / time.Duration(len(groups)-g))
		var last time.Duration
		for round := range group.rounds {
			roundBegan := time.Now()
			if round > 0 && budget > 0 && roundBegan.Add(last).After(share) {
				break
			}
			for turn := range group.Variants {
				v := &group.Variants[(turn+round)%len(group.Variants)]
				began := time.Now()
				s, err := v.run(ctx, round)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", group.Name, v.Name, err)
				}
				v.Samples = append(v.Samples, s)
				fmt.Fprintf(os.Stderr, "%s %s, round %d/%d, %s: %.0f/s (%.1f s in all)\n",
					w.id, group.Name, round+1, group.rounds, v.Name, s.Rate, time.Since(began).Seconds())
			}
			last = time.Since(roundBegan)
		}
	}
	return groups, nil
}
