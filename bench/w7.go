package main

import "fmt"

// W7: W5 with a long queue, half of it not due. "alone" is the same work without it.
func workload7() workload {
	return workload{"W7", "W5 with a long queue", func(e *env) []group {
		g := group{Name: fmt.Sprintf("%d tasks of %d pending, half of these not due", e.tasks, e.pending), rounds: e.slowRounds}
		for _, s := range e.longSystems() {
			tasks := e.tasksOf(s, e.tasks)
			g.Variants = append(g.Variants,
				e.workVariant(s.name, workCell{system: s, label: " W7", tasks: tasks, mark: 1000, backlog: e.pending}),
				e.workVariant(s.name+alone, workCell{system: s, label: " W7 alone", tasks: tasks, mark: 1000}))
		}
		return []group{g}
	}}
}

const alone = ", alone"

// longSystems leaves out gue where time is short: its rate says enough in W5.
func (e *env) longSystems() []system {
	if e.budget > 0 {
		return []system{pgqueueSystem(), riverSystem(), bareSystem()}
	}
	return []system{pgqueueSystem(), riverSystem(), gueSystem(), bareSystem()}
}
