package main

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed audit.sql
	auditSQL string
	//go:embed tasks.sql
	tasksSQL string
)

const (
	pendingSQL    = `select count(*) from pgqueue.task where status in ('READY', 'RUNNING')`
	settledSQL    = `select task_id, from_status, to_status, lease_number, at from chaos.settled order by n`
	attemptsSQL   = `select task_id, lease_number, outcome::text as outcome from pgqueue.attempt`
	windowsSQL    = `select window_key, task_id from pgqueue.unique_window`
	invariantsSQL = `select format('%s: task %s: %s', rule, task_id, details) from pgqueue.check_invariants()`
	heartbeatSQL  = `update chaos.heartbeat set at = clock_timestamp()`
	backendsSQL   = `select pid, application_name as name from pg_stat_activity where application_name ~ '^[wp][0-9]' order by application_name, pid`
	terminateSQL  = `select pg_terminate_backend($1)`
	stuckSQL      = `
select format('%s %s attempt %s of %s lease %s number %s, due in %s, lease ends in %s', t.id, t.status, t.attempt, t.max_attempts, t.lease_id,
	t.lease_number, t.run_after - clock_timestamp(), l.expires_at - clock_timestamp())
from pgqueue.task t left join pgqueue.lease l on l.namespace = t.namespace and l.id = t.lease_id
where t.status in ('READY', 'RUNNING') limit 10`
	dataDirectorySQL = `select current_setting('data_directory')`
	synchronousSQL   = `alter system set synchronous_standby_names = '*'`
	reloadSQL        = `select pg_reload_conf()`
	synchronizedSQL  = `select count(*) from pg_stat_replication where state = 'streaming' and sync_state in ('sync', 'quorum')`
	streamingSQL     = `select count(*) from pg_stat_replication where state = 'streaming'`
	promoteSQL       = `select pg_promote(true, 120)`
)

func one[T any](ctx context.Context, pool *pgxpool.Pool, query string, args ...any) (T, error) {
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

func list[T any](ctx context.Context, pool *pgxpool.Pool, query string) ([]T, error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

func structs[T any](ctx context.Context, pool *pgxpool.Pool, query string) ([]T, error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}
