create or replace function pgqueue.cancel(
	task_id uuid,
	namespace text default null)
returns pgqueue.task_status
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(cancel.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_status pgqueue.task_status;
begin
	update pgqueue.task t
	set status = case t.status when 'READY' then 'DISCARDED' else t.status end,
		claimable = false,
		finished_at = case t.status when 'READY' then v_now end,
		cancel_requested_at = coalesce(t.cancel_requested_at, v_now)
	where t.namespace = v_namespace and t.id = cancel.task_id and t.status in ('READY', 'RUNNING')
	returning t.status into v_status;
	if found then
		return v_status;
	end if;
	select t.status into v_status from pgqueue.task t where t.namespace = v_namespace and t.id = cancel.task_id;
	if not found then
		perform pgqueue._unknown_task(v_namespace, cancel.task_id);
	end if;
	perform pgqueue._invalid_state('cancel', cancel.task_id, v_status, 'READY or RUNNING');
	return null;
end
$$;
comment on function pgqueue.cancel(uuid, text) is
'Asks a RUNNING task to stop: its worker learns it at its next renewal, and the attempt then ends as DISCARDED instead of being tried again (SUCCESSFUL when it finishes first). A READY task is DISCARDED at once. Returns the status after the call. Errors: PQ008 unknown task, PQ009 the task is settled.';
