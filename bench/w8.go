package main

import "fmt"

const snapshotWindows = 10

// W8: a long W5 while another session holds an older snapshot. "alone" is the same work without it.
func workload8() workload {
	return workload{"W8", "W5 under an old snapshot", func(e *env) []group {
		g := group{Name: fmt.Sprintf("%d tasks under a snapshot in another session", e.snapshot), rounds: e.slowRounds}
		for _, s := range e.longSystems() {
			tasks := e.tasksOf(s, e.snapshot)
			c := workCell{system: s, tasks: tasks, mark: tasks / snapshotWindows, snapshot: true}
			g.Variants = append(g.Variants, e.workVariant(s.name, c))
			c.snapshot = false
			g.Variants = append(g.Variants, e.workVariant(s.name+alone, c))
		}
		return []group{g}
	}}
}
