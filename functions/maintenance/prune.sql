create or replace function pgqueue.prune(
	retention interval default null,
	failed_retention interval default null,
	max_tasks integer default null,
	namespace text default null)
returns pgqueue.pruned
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
	v_retention interval := coalesce(prune.retention, interval '7 days');
	v_max integer := coalesce(prune.max_tasks, 10000);
	v_now timestamptz := pgqueue._now();
	v_namespace text;
	v_rows bigint;
	v_before uuid;
	v_pruned pgqueue.pruned := (0::bigint, 0::bigint, 0::bigint);
begin
	if v_retention < interval '0' or prune.failed_retention < interval '0' then
		raise exception using errcode = '22023',
			message = format('retention is %s, failed_retention is %s: they must not be negative', v_retention, prune.failed_retention);
	elsif v_max < 1 then
		raise exception using errcode = '22023', message = format('max_tasks is %s, it must be positive', v_max);
	end if;
	-- Ids sort by creation, and a task is created before it is finished: newer ids than the cut-off need no look.
	v_before := pgqueue._new_id(v_now - least(v_retention, coalesce(prune.failed_retention, v_retention)) + interval '1 millisecond');
	for v_namespace in select n from pgqueue._namespaces(prune.namespace) n loop
		with old as materialized (
			select t.id
			from pgqueue.task t
			where t.namespace = v_namespace
				and t.id < v_before
				and (t.status in ('SUCCESSFUL', 'DISCARDED') and t.finished_at <= v_now - v_retention
					or t.status in ('FAILED', 'LOST') and t.finished_at <= v_now - prune.failed_retention)
			order by t.id
			limit v_max - v_pruned.tasks
			for update skip locked
		), gone as (
			delete from pgqueue.task t using old o where t.namespace = v_namespace and t.id = o.id
			returning t.id
		), history as (
			delete from pgqueue.attempt a using gone g where a.namespace = v_namespace and a.task_id = g.id
		)
		select count(*) into v_rows from gone g;
		v_pruned.tasks := v_pruned.tasks + v_rows;

		with expired as materialized (
			select w.key
			from pgqueue.unique_window w
			where w.namespace = v_namespace and w.expires_at <= v_now
			order by w.expires_at
			limit v_max
			for update skip locked
		)
		delete from pgqueue.unique_window w using expired e where w.namespace = v_namespace and w.key = e.key;
		get diagnostics v_rows = row_count;
		v_pruned.windows := v_pruned.windows + v_rows;
		exit when v_pruned.tasks >= v_max;
	end loop;
	v_pruned.locks := pgqueue.release_stale(v_max, prune.namespace);
	return v_pruned;
end
$$;
comment on function pgqueue.prune(interval, interval, integer, text) is
'Deletes settled tasks with their attempts, expired windows and stale locks, in one bounded batch; call it until it returns fewer tasks than max_tasks. Pending tasks are never deleted, and open windows outlive their tasks.
retention: age since the end for SUCCESSFUL and DISCARDED tasks; default 7 days. failed_retention: the same for FAILED and LOST ones; default null, which keeps them. max_tasks: default 10000. namespace: default all. Waits for no lock: rows that others hold are passed over. Errors: 22023 bad argument.';
revoke all on function pgqueue.prune(interval, interval, integer, text) from public;
