package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	waitLimit = 10 * time.Second
	waitStep  = 2 * time.Millisecond
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Backend is one look at a session of the server.
type Backend struct {
	Exists    bool
	Blocked   bool     // waits for a lock that another session holds or wants first
	BlockedBy []uint32 // process ids
	State     string   // as in pg_stat_activity
}

// Idle means that the session waits for its client, in a transaction or not.
func (b Backend) Idle() bool { return strings.HasPrefix(b.State, "idle") }

// Look reads the state of a session. The view is frozen within a transaction, so each look thaws it first.
func Look(ctx context.Context, q Querier, pid uint32) (Backend, error) {
	rows, err := q.Query(ctx, "select pg_catalog.pg_stat_clear_snapshot()::text", pgx.QueryExecModeExec)
	if err != nil {
		return Backend{}, err
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return Backend{}, err
	}
	rows, err = q.Query(ctx, `select true, coalesce(a.wait_event_type = 'Lock' and b.pids <> '{}', false), b.pids::bigint[],
			coalesce(a.state, '')
		from pg_catalog.pg_stat_activity a, pg_catalog.pg_blocking_pids(a.pid) as b (pids)
		where a.pid = $1`, pgx.QueryExecModeExec, int32(pid))
	if err != nil {
		return Backend{}, err
	}
	var blockers []int64
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (b Backend, err error) {
		return b, row.Scan(&b.Exists, &b.Blocked, &blockers, &b.State)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Backend{}, nil
	}
	for _, blocker := range blockers {
		found.BlockedBy = append(found.BlockedBy, uint32(blocker))
	}
	return found, err
}

// WaitBlocked waits until the session waits for a lock. It fails the test, with a picture of all sessions of that
// database, when this takes more than 10 s.
func WaitBlocked(t testing.TB, q Querier, pid uint32) {
	t.Helper()
	waitFor(t, q, pid, "wait for a lock", func(b Backend) bool { return b.Blocked })
}

// WaitIdle waits until the session has nothing to do, in a transaction or not. It fails like WaitBlocked.
func WaitIdle(t testing.TB, q Querier, pid uint32) {
	t.Helper()
	waitFor(t, q, pid, "become idle", Backend.Idle)
}

func waitFor(t testing.TB, q Querier, pid uint32, what string, reached func(Backend) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(waitStep) {
		found, err := Look(ctx, q, pid)
		if err != nil {
			t.Fatalf("pgtest: wait for backend %d: %v", pid, err)
		}
		if reached(found) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("pgtest: backend %d did not %s\n%s", pid, what, Activity(ctx, q))
		}
	}
}

// Activity is a picture of the other client sessions, for messages.
func Activity(ctx context.Context, q Querier) string {
	rows, err := q.Query(ctx, `select format('pid %s %s %s, %s, waits for %s, blocked by %s: %s', pid, datname, application_name,
			coalesce(state, '-'), coalesce(wait_event_type || '/' || wait_event, '-'),
			pg_catalog.pg_blocking_pids(pid)::text, regexp_replace(left(query, 300), '\s+', ' ', 'g'))
		from pg_catalog.pg_stat_activity
		where backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()
			and application_name <> 'pgtest'
		order by datname, pid`, pgx.QueryExecModeExec)
	if err != nil {
		return fmt.Sprintf("(activity: %v)", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Sprintf("(activity: %v)", err)
	}
	return "activity:\n  " + strings.Join(lines, "\n  ")
}
