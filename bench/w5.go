package main

import (
	"context"
	"fmt"
)

// W5: tasks that do nothing, preloaded, settled by one worker process.
func workload5() workload {
	return workload{"W5", "work off a queue", func(e *env) []group {
		g := group{Name: fmt.Sprintf("%d tasks, one worker of concurrency %d", e.tasks, workerConcurrency), rounds: e.rounds}
		for _, s := range []system{pgqueueSystem(), riverSystem(), gueSystem(), bareSystem(), bareLoopsSystem()} {
			g.Variants = append(g.Variants, e.workVariant(s.name, workCell{system: s, tasks: e.tasksOf(s, e.tasks), mark: 1000}))
		}
		return []group{g}
	}}
}

func (e *env) workVariant(name string, c workCell) variant {
	return variant{Name: name, run: func(ctx context.Context, _ int) (sample, error) { return e.work(ctx, c) }}
}

func (e *env) tasksOf(s system, tasks int) int {
	if s.name == gueSystem().name {
		return min(e.gueTasks, tasks)
	}
	return tasks
}
