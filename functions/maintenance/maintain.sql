create or replace function pgqueue.maintain(
	retention interval default null,
	failed_retention interval default null,
	max_tasks integer default null,
	namespace text default null)
returns pgqueue.maintained
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_reaped pgqueue.reaped := pgqueue.reap_lost(maintain.max_tasks, maintain.namespace);
	v_pruned pgqueue.pruned := pgqueue.prune(retention => maintain.retention, failed_retention => maintain.failed_retention,
		lost_retention => maintain.failed_retention, max_tasks => maintain.max_tasks, namespace => maintain.namespace);
begin
	return row(v_reaped.requeued, v_reaped.lost, v_reaped.discarded, v_pruned.tasks, v_pruned.windows, v_pruned.locks)::pgqueue.maintained;
end
$$;
comment on function pgqueue.maintain(interval, interval, integer, text) is
'One bounded round of all maintenance: reap_lost, then prune with release_stale. Safe from every worker and from pg_cron at once. retention: as in prune; failed_retention: for FAILED and LOST tasks, default null, which keeps them. max_tasks: for each step, defaults of the steps. namespace: default all. Errors: 22023 bad argument.';
