create or replace function pgqueue.fail_many(
	task_ids uuid[],
	lease_numbers integer[],
	errors text[],
	error_traces text[] default null,
	retry_after interval[] default null,
	discard boolean[] default null,
	namespace text default null)
returns setof pgqueue.failure
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
	v_namespace text := coalesce(fail_many.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_count integer := cardinality(fail_many.task_ids);
begin
	if v_count <> cardinality(fail_many.lease_numbers) or v_count <> cardinality(fail_many.errors)
		or v_count <> cardinality(fail_many.error_traces) or v_count <> cardinality(fail_many.retry_after)
		or v_count <> cardinality(fail_many.discard) then
		raise exception using errcode = '22023', message = format(
			'the arrays must have one length: task_ids has %s elements, lease_numbers %s, errors %s, error_traces %s, retry_after %s, discard %s',
			v_count, cardinality(fail_many.lease_numbers), cardinality(fail_many.errors), cardinality(fail_many.error_traces),
			cardinality(fail_many.retry_after), cardinality(fail_many.discard));
	elsif exists (select from unnest(fail_many.retry_after) r (delay) where r.delay < interval '0') then
		raise exception using errcode = '22023', message = format('retry_after is %s, it must not be negative',
			(select min(r.delay) from unnest(fail_many.retry_after) r (delay)));
	end if;
	return query
	with item as (
		select u.*
		from unnest(fail_many.task_ids, fail_many.lease_numbers, fail_many.errors, fail_many.error_traces, fail_many.retry_after, fail_many.discard)
			with ordinality u (id, number, error, trace, retry_after, discard, ordinal)
	), ended as materialized (
		select i.ordinal, t.id, t.attempt, t.started_at, l.worker, i.number, i.error, i.trace,
			case
				when t.status = 'LOST' then 'FAILED'
				when i.discard is true or t.cancel_requested_at is not null then 'DISCARDED'
				when t.attempt < t.max_attempts then 'READY'
				else 'FAILED'
			end::pgqueue.task_status as to_status,
			v_now + coalesce(i.retry_after, pgqueue._backoff(t.policy, t.attempt)) as due
		from item i
		join pgqueue.task t on t.namespace = v_namespace and t.id = i.id and t.lease_number = i.number and t.status in ('RUNNING', 'LOST')
		left join pgqueue.lease l on l.namespace = v_namespace and l.id = t.lease_id
		order by t.id
		for no key update of t
	), written as (
		update pgqueue.task t
		set status = e.to_status,
			claimable = e.to_status = 'READY',
			run_after = case when e.to_status = 'READY' then e.due else t.run_after end,
			lease_id = case when e.to_status = 'READY' then null else t.lease_id end,
			finished_at = case when e.to_status = 'READY' then null else v_now end
		from ended e
		where t.namespace = v_namespace and t.id = e.id
	), noted as (
		insert into pgqueue.attempt (namespace, task_id, lease_number, attempt, outcome, worker, started_at, finished_at, error, error_trace)
		select v_namespace, e.id, e.number, e.attempt,
			case when e.to_status = 'DISCARDED' then 'DISCARDED' else 'FAILED' end::pgqueue.attempt_outcome,
			e.worker, e.started_at, v_now, left(e.error, 65536), left(nullif(e.trace, ''), 65536)
		from ended e
		-- The row of a LOST attempt, whose own execution reports now.
		on conflict on constraint attempt_pkey do update
		set outcome = excluded.outcome, finished_at = excluded.finished_at, error = excluded.error, error_trace = excluded.error_trace
	)
	select i.id, case when e.id is null then 'LEASE_LOST' else 'OK' end::pgqueue.write_result, e.to_status,
		case when e.to_status = 'READY' then e.due end
	from item i
	left join ended e on e.ordinal = i.ordinal
	order by i.ordinal;
end
$$;
comment on function pgqueue.fail_many(uuid[], integer[], text[], text[], interval[], boolean[], text) is
'As fail, for many tasks in one statement; the arrays are of one length, and optional ones may have null elements, and an empty error_trace is none. A task may stand in it once. Returns a row for each task in input order. Errors: 22023 when the arrays differ in length or a retry_after is negative.';
