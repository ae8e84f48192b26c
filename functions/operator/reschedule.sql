create or replace function pgqueue.reschedule(
	task_id uuid,
	run_after timestamptz default null,
	delay interval default null,
	priority integer default null,
	namespace text default null)
returns timestamptz
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(reschedule.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_refusal pgqueue.receipt := pgqueue._argument_error(v_namespace, 'reschedule', 'default', reschedule.priority, reschedule.run_after,
		reschedule.delay, 1, null, null, null, null, null, 0, 0);
	v_status pgqueue.task_status;
	v_due timestamptz;
begin
	if v_refusal.error_code is not null then
		perform pgqueue._raise(v_refusal);
	end if;
	update pgqueue.task t
	set run_after = coalesce(reschedule.run_after, v_now + reschedule.delay, t.run_after), priority = coalesce(reschedule.priority, t.priority)
	where t.namespace = v_namespace and t.id = reschedule.task_id and t.status = 'READY'
	returning t.run_after into v_due;
	if not found then
		select t.status into v_status from pgqueue.task t where t.namespace = v_namespace and t.id = reschedule.task_id;
		if not found then
			perform pgqueue._unknown_task(v_namespace, reschedule.task_id);
		end if;
		perform pgqueue._invalid_state('reschedule', reschedule.task_id, v_status, 'READY');
	end if;
	return v_due;
end
$$;
comment on function pgqueue.reschedule(uuid, timestamptz, interval, integer, text) is
'Changes when a READY task is due, and its priority. run_after or delay (from now on), not both; null keeps what there is. Returns when the task is due. A window key still compares with the request as it was enqueued.
Errors: PQ008 unknown task, PQ009 the task is not READY, 22023 bad argument.';
