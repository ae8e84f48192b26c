create or replace function pgqueue.prune(
	retention interval default null,
	discarded_retention interval default null,
	failed_retention interval default null,
	lost_retention interval default null,
	max_tasks integer default null,
	after uuid default null,
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
	v_discarded interval := coalesce(prune.discarded_retention, v_retention);
	v_shortest interval := least(v_retention, v_discarded, prune.failed_retention, prune.lost_retention);
	v_max integer := coalesce(prune.max_tasks, 10000);
	v_now timestamptz := pgqueue._now();
	-- Ids sort by creation, and a task is created before it is finished: newer ids than the cut-off need no look.
	v_before uuid := pgqueue._new_id(v_now - v_shortest + interval '1 millisecond');
	v_after uuid := coalesce(prune.after, '00000000-0000-0000-0000-000000000000');
	v_namespace text;
	v_last uuid;
	v_rows bigint;
	v_pruned pgqueue.pruned := (0::bigint, 0::bigint, 0::bigint, null::uuid);
begin
	if v_shortest < interval '0' then
		raise exception using errcode = '22023', message = format('a retention is %s, it must not be negative', v_shortest);
	elsif v_max < 1 then
		raise exception using errcode = '22023', message = format('max_tasks is %s, it must be positive', v_max);
	end if;
	for v_namespace in select n from pgqueue._namespaces(prune.namespace) n loop
		with old as materialized (
			select t.id
			from pgqueue.task t
			where t.namespace = v_namespace and t.id > v_after and t.id < v_before
				and v_now - t.finished_at >= case t.status
					when 'SUCCESSFUL' then v_retention
					when 'DISCARDED' then v_discarded
					when 'FAILED' then prune.failed_retention
					when 'LOST' then prune.lost_retention
				end
			order by t.id
			limit v_max - v_pruned.tasks
			for update skip locked
		), gone as (
			delete from pgqueue.task t using old o where t.namespace = v_namespace and t.id = o.id
			returning t.id
		), history as (
			delete from pgqueue.attempt a using gone g where a.namespace = v_namespace and a.task_id = g.id
		)
		select count(*), (array_agg(g.id order by g.id desc))[1] into v_rows, v_last from gone g;
		v_pruned.tasks := v_pruned.tasks + v_rows;
		v_pruned.last_id := coalesce(v_last, v_pruned.last_id);

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
comment on function pgqueue.prune(interval, interval, interval, interval, integer, uuid, text) is
'Deletes settled tasks with their attempts, expired windows and stale locks, in one bounded batch; call it until it returns fewer tasks than max_tasks. Pending tasks are never deleted, and open windows outlive their tasks.
retention: age since the end for SUCCESSFUL tasks; default 7 days. discarded_retention: for DISCARDED ones; default retention. failed_retention, lost_retention: for FAILED and LOST ones; default null, which keeps them.
max_tasks: default 10000. after: begin after this task, the last_id of the batch before, which spares the walk over kept rows; default from the oldest on. namespace: default all; give one with after. Waits for no lock: rows that others hold are passed over, so two at once do no harm. Errors: 22023 bad argument.';
