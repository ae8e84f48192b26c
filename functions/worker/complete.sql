create or replace function pgqueue.complete(
	task_id uuid,
	lease_number integer,
	result jsonb default null,
	namespace text default null)
returns pgqueue.write_result
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
	v_namespace text := coalesce(complete.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_lock bytea;
begin
	update pgqueue.task t
	set status = 'SUCCESSFUL', finished_at = v_now, result = complete.result
	where t.namespace = v_namespace and t.id = complete.task_id and t.lease_number = complete.lease_number
		and t.status in ('RUNNING', 'LOST')
	returning t.lock_key into v_lock;
	if not found then
		return 'LEASE_LOST'::pgqueue.write_result;
	end if;
	if v_lock is not null then
		perform pgqueue._release(v_namespace, array[v_lock], array[complete.task_id]);
	end if;
	return 'OK'::pgqueue.write_result;
end
$$;
comment on function pgqueue.complete(uuid, integer, jsonb, text) is
'Settles a task as SUCCESSFUL and frees its active key. lease_number: as claimed. result: any JSON value, kept with the task.
Returns OK, or LEASE_LOST when the task has moved on to another execution or is settled: nothing was changed. The last execution of a LOST task may still write its outcome.';
