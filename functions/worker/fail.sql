create or replace function pgqueue.fail(
	task_id uuid,
	lease_number integer,
	error text,
	error_trace text default null,
	retry_after interval default null,
	discard boolean default null,
	namespace text default null)
returns pgqueue.failure
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
	v_namespace text := coalesce(fail.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_task record;
	v_failure pgqueue.failure;
begin
	if fail.retry_after < interval '0' then
		raise exception using errcode = '22023', message = format('retry_after is %s, it must not be negative', fail.retry_after);
	end if;
	select t.status, t.attempt, t.max_attempts, t.policy, t.started_at, t.cancel_requested_at, l.worker into v_task
	from pgqueue.task t
	left join pgqueue.lease l on l.namespace = v_namespace and l.id = t.lease_id
	where t.namespace = v_namespace and t.id = fail.task_id and t.lease_number = fail.lease_number
		and t.status in ('RUNNING', 'LOST')
	for no key update of t;
	if not found then
		v_failure.result := 'LEASE_LOST';
		return v_failure;
	end if;
	v_failure.result := 'OK';
	v_failure.status := case
		when v_task.status = 'LOST' then 'FAILED'
		when coalesce(fail.discard, false) or v_task.cancel_requested_at is not null then 'DISCARDED'
		when v_task.attempt < v_task.max_attempts then 'READY'
		else 'FAILED'
	end::pgqueue.task_status;
	if v_failure.status = 'READY' then
		v_failure.run_after := v_now + coalesce(fail.retry_after, pgqueue._backoff(v_task.policy, v_task.attempt));
		update pgqueue.task t
		set status = 'READY', claimable = true, run_after = v_failure.run_after, lease_id = null
		where t.namespace = v_namespace and t.id = fail.task_id;
	else
		update pgqueue.task t
		set status = v_failure.status, finished_at = v_now
		where t.namespace = v_namespace and t.id = fail.task_id;
	end if;
	insert into pgqueue.attempt (namespace, task_id, lease_number, attempt, outcome, worker, started_at, finished_at, error, error_trace)
	values (v_namespace, fail.task_id, fail.lease_number, v_task.attempt,
		case when v_failure.status = 'DISCARDED' then 'DISCARDED' else 'FAILED' end::pgqueue.attempt_outcome,
		v_task.worker, v_task.started_at, v_now, left(fail.error, 65536), left(fail.error_trace, 65536))
	on conflict on constraint attempt_pkey do update
	set outcome = excluded.outcome, finished_at = excluded.finished_at, error = excluded.error, error_trace = excluded.error_trace;
	return v_failure;
end
$$;
comment on function pgqueue.fail(uuid, integer, text, text, interval, boolean, text) is
'Ends an attempt with an error. With attempts left the task goes back to READY, after retry_after or else its backoff (doubled with each attempt, plus or minus 10 %); on the last it is FAILED. discard => true, or an earlier cancel, makes it DISCARDED at once. The active key stays held while the task is READY.
error, error_trace: kept with the attempt, the first 65,536 characters of each. lease_number: as claimed.
Returns the new status, or result = LEASE_LOST when the task has moved on or is settled: nothing was changed. The last execution of a LOST task may write FAILED, it is not retried. Errors: 22023 negative retry_after.';
revoke all on function pgqueue.fail(uuid, integer, text, text, interval, boolean, text) from public;
