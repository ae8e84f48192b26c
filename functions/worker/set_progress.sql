create or replace function pgqueue.set_progress(
	task_id uuid,
	lease_number integer,
	progress jsonb,
	namespace text default null)
returns pgqueue.write_result
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
	update pgqueue.task t
	set progress = set_progress.progress
	where t.namespace = coalesce(set_progress.namespace, 'default') and t.id = set_progress.task_id
		and t.lease_number = set_progress.lease_number and t.status = 'RUNNING';
	return case when found then 'OK' else 'LEASE_LOST' end::pgqueue.write_result;
end
$$;
comment on function pgqueue.set_progress(uuid, integer, jsonb, text) is
'Stores how far a running task is: any JSON value, shown to people and kept when the task ends. It rewrites the task''s row, so write it seldom. Returns OK, or LEASE_LOST when the task has moved on: nothing was changed.';
