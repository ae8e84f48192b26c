create or replace function pgqueue.retry(
	task_id uuid,
	namespace text default null)
returns pgqueue.retried
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(retry.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_lock bytea;
	v_status pgqueue.task_status;
	v_retried pgqueue.retried;
begin
	select t.status, t.lock_key into v_status, v_lock
	from pgqueue.task t
	where t.namespace = v_namespace and t.id = retry.task_id;
	if not found then
		perform pgqueue._unknown_task(v_namespace, retry.task_id);
	elsif v_status not in ('FAILED', 'LOST', 'DISCARDED') then
		perform pgqueue._invalid_state('retry', retry.task_id, v_status, 'FAILED, LOST or DISCARDED');
	end if;
	v_retried.task_id := retry.task_id;
	if v_lock is not null then
		v_retried.key_holder_id := pgqueue._reclaim_key(v_namespace, v_lock, retry.task_id);
		v_retried.holds_key := v_retried.key_holder_id is null;
	end if;
	update pgqueue.task t
	set status = 'READY', claimable = true, run_after = v_now, finished_at = null, cancel_requested_at = null,
		max_attempts = greatest(t.max_attempts, t.attempt + 1),
		lease_id = null, lease_number = t.lease_number + 1,
		lock_key = case when v_retried.holds_key then t.lock_key end
	where t.namespace = v_namespace and t.id = retry.task_id and t.status in ('FAILED', 'LOST', 'DISCARDED');
	if not found then
		select t.status into v_status from pgqueue.task t where t.namespace = v_namespace and t.id = retry.task_id;
		perform pgqueue._invalid_state('retry', retry.task_id, v_status, 'FAILED, LOST or DISCARDED');
	end if;
	return v_retried;
end
$$;
comment on function pgqueue.retry(uuid, text) is
'An operator''s order to run a FAILED, LOST or DISCARDED task again: READY at once, with at least one more attempt. It is not an enqueue and does not pass the uniqueness gate. A task that still holds its active key keeps it, and takes it again when it is free; when a newer pending task holds the key, this one runs beside it, and key_holder_id names the newer one.
Errors: PQ008 unknown task, PQ009 the task is in another state. Nothing is changed then.';
