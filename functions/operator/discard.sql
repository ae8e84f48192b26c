create or replace function pgqueue.discard(
	task_id uuid,
	namespace text default null)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(discard.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_status pgqueue.task_status;
begin
	update pgqueue.task t
	set status = 'DISCARDED', claimable = false, finished_at = coalesce(t.finished_at, v_now)
	where t.namespace = v_namespace and t.id = discard.task_id and t.status in ('READY', 'FAILED', 'LOST');
	if found then
		return;
	end if;
	select t.status into v_status from pgqueue.task t where t.namespace = v_namespace and t.id = discard.task_id;
	if not found then
		perform pgqueue._unknown_task(v_namespace, discard.task_id);
	end if;
	perform pgqueue._invalid_state('discard', discard.task_id, v_status, 'READY, FAILED or LOST');
end
$$;
comment on function pgqueue.discard(uuid, text) is
'Closes a READY, FAILED or LOST task as DISCARDED; its active key is free. Errors: PQ008 unknown task, PQ009 the task is in another state (stop a RUNNING one with pgqueue.cancel).';
