create or replace function pgqueue.snooze(
	task_id uuid,
	lease_number integer,
	delay interval,
	namespace text default null)
returns pgqueue.write_result
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(snooze.namespace, 'default');
	v_now timestamptz := pgqueue._now();
begin
	if snooze.delay is null or snooze.delay < interval '0' then
		raise exception using errcode = '22023', message = format('delay is %s, it must be given and not negative', coalesce(snooze.delay::text, 'null'));
	end if;
	update pgqueue.task t
	set status = case when t.cancel_requested_at is null then 'READY' else 'DISCARDED' end::pgqueue.task_status,
		claimable = t.cancel_requested_at is null,
		finished_at = case when t.cancel_requested_at is null then null else v_now end,
		run_after = v_now + snooze.delay, attempt = t.attempt - 1, lease_id = null
	where t.namespace = v_namespace and t.id = snooze.task_id and t.lease_number = snooze.lease_number and t.status = 'RUNNING';
	return case when found then 'OK' else 'LEASE_LOST' end::pgqueue.write_result;
end
$$;
comment on function pgqueue.snooze(uuid, integer, interval, text) is
'Puts a running task back to READY, due after delay, without counting the attempt (DISCARDED when it was asked to stop). The active key stays held. Returns OK, or LEASE_LOST when the task has moved on: nothing was changed. Errors: 22023 bad delay.';
