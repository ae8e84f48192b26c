package demo

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed progress.sql
	progressQuery string
	//go:embed held.sql
	heldQuery string
	//go:embed check.sql
	checkQuery string
)

// progress is how far the tasks are.
type progress struct {
	Ready, Scheduled, Running, Settled, Retried, Reaped, Doubled int
}

func (p progress) pending() int { return p.Ready + p.Scheduled + p.Running }

func readProgress(ctx context.Context, pool *pgxpool.Pool, namespace string) (progress, error) {
	return one[progress](ctx, pool, progressQuery, namespace)
}

// heldBy counts the tasks that a worker runs.
func heldBy(ctx context.Context, pool *pgxpool.Pool, namespace, worker string) (int, error) {
	rows, err := pool.Query(ctx, heldQuery, namespace, worker)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
}

// stored is what the database says in the end.
type stored struct {
	Tasks            int `json:"tasks"`
	Successful       int `json:"successful"`
	Failed           int `json:"failed"`
	Lost             int `json:"lost"`
	Discarded        int `json:"discarded"`
	Pending          int `json:"pending"`
	Retried          int `json:"retried"`
	Reaped           int `json:"reaped"`
	Doubled          int `json:"doubled"`
	Missing          int `json:"missing"`
	Unknown          int `json:"unknown"`
	WindowsToNothing int `json:"windows_to_nothing"`
}

func (s stored) settled() int { return s.Successful + s.Failed + s.Lost + s.Discarded }

// check compares the receipts with the database and returns what does not add up.
func check(ctx context.Context, pool *pgxpool.Pool, namespace string, l *ledger) (stored, []string, error) {
	answered, created := l.ids()
	s, err := one[stored](ctx, pool, checkQuery, namespace, answered, created)
	if err != nil {
		return s, nil, fmt.Errorf("check: %w", err)
	}
	problems := append([]string{}, l.audit()...)
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	c := l.read()
	want(s.Tasks == c.Created, "created %d, but the database has %d tasks", c.Created, s.Tasks)
	want(s.settled() == c.Created, "created %d, but %d tasks are settled", c.Created, s.settled())
	want(s.Pending == 0, "%d tasks are still pending", s.Pending)
	want(s.Doubled == 0, "%d active keys have more than one pending task", s.Doubled)
	want(s.Missing == 0, "%d tasks that receipts name are not in the database", s.Missing)
	want(s.Unknown == 0, "%d tasks in the database have no receipt that says CREATED", s.Unknown)
	want(s.WindowsToNothing == 0, "%d window keys point to tasks that do not exist", s.WindowsToNothing)
	return s, problems, nil
}

func one[T any](ctx context.Context, pool *pgxpool.Pool, query string, args ...any) (T, error) {
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
}
