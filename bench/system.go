package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// system is one way to queue tasks: a library with its tables, or bare SQL.
type system struct {
	name   string
	module string // for its version
	// install makes the tables in an empty database.
	install func(ctx context.Context, conn *pgx.Conn) error
	// tables returns those that are emptied between cells.
	tables func(ctx context.Context, conn *pgx.Conn) ([]string, error)
	open   func(ctx context.Context, pool *pgxpool.Pool) (queue, error)
}

// queue is a system on a pool.
type queue interface {
	// enqueue enqueues a task that is unique by its number while it is pending, and tells whether it made one.
	enqueue(ctx context.Context, number int) (created bool, err error)
	// enqueueMany does the same for many in one call.
	enqueueMany(ctx context.Context, numbers []int) (created int, err error)
	// enqueuePlain enqueues a task without a key, and wakes the worker at once if the system can.
	enqueuePlain(ctx context.Context, number int) error
	// load enqueues many tasks without a key; every second one is not due for an hour when half is set.
	load(ctx context.Context, tasks int, half bool) error
	// busy tells whether any task is pending.
	busy(ctx context.Context) (bool, error)
	count(ctx context.Context) (counts, error)
	// work works until ctx ends, and returns when what it had begun is settled in the database.
	work(ctx context.Context, config workConfig) error
}

type workConfig struct {
	concurrency int
	handle      func()
}

// counts are the tasks in the database. Settled is noHistory where they are deleted.
type counts struct{ pending, settled int }

const noHistory = -1

// order is the payload of all tasks, about 100 bytes as JSON.
type order struct {
	Number   int    `json:"number"`
	Customer string `json:"customer"`
	Note     string `json:"note"`
}

func newOrder(number int) order {
	return order{Number: number, Customer: fmt.Sprintf("customer-%08d", number), Note: "deliver to the back door, ring twice, then wait"}
}

func (o order) key() string { return fmt.Sprintf("order:%08d", o.Number) }

const (
	loadBatch = 1000
	taskName  = "order"
)

// batches calls f for parts of n.
func batches(n int, f func(from, to int) error) error {
	for from := 0; from < n; from += loadBatch {
		if err := f(from, min(from+loadBatch, n)); err != nil {
			return fmt.Errorf("load tasks %d to %d: %w", from, min(from+loadBatch, n), err)
		}
	}
	return nil
}

func systems() []system {
	return []system{pgqueueSystem(), pgqueueSQLSystem(), riverSystem(), gueSystem(), bareSystem(), bareLoopsSystem(), bareInsertSystem(), bareHeldSystem()}
}

func systemNamed(name string) (system, error) {
	for _, s := range systems() {
		if s.name == name {
			return s, nil
		}
	}
	return system{}, fmt.Errorf("there is no system %q", name)
}

// versions returns the versions of the modules that the systems come from.
func versions() map[string]string {
	found := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, s := range systems() {
		for _, d := range info.Deps {
			if d.Path == s.module {
				found[s.module] = d.Version
				if d.Replace != nil {
					found[s.module] = "this tree"
				}
			}
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/jackc/pgx/v5" {
			found[d.Path] = d.Version
		}
	}
	return found
}

func named(names ...string) func(context.Context, *pgx.Conn) ([]string, error) {
	return func(context.Context, *pgx.Conn) ([]string, error) { return names, nil }
}
