-- Takes back tasks of one expired lease; the caller holds its row. Compare-and-set, and rows that others hold are passed over.
-- p_task_id narrows it to one task.
create or replace function pgqueue._reap_lease(p_lease pgqueue.lease, p_now timestamptz, p_limit bigint, p_task_id uuid default null)
returns pgqueue.reaped
language plpgsql
volatile
as $$
declare
	v_reaped pgqueue.reaped;
begin
	with dead as materialized (
		select t.id
		from pgqueue.task t
		where t.namespace = p_lease.namespace and t.lease_id = p_lease.id and t.status = 'RUNNING'
			and p_lease.renewed_at + coalesce((t.policy ->> 'lease')::bigint, 0) * interval '1 millisecond' <= p_now
			and (p_task_id is null or t.id = p_task_id)
		order by t.id
		limit p_limit
		for no key update skip locked
	), taken as (
		update pgqueue.task t
		set status = case when t.cancel_requested_at is not null then 'DISCARDED'
				when t.attempt < t.max_attempts then 'READY' else 'LOST' end::pgqueue.task_status,
			claimable = t.cancel_requested_at is null and t.attempt < t.max_attempts,
			-- A LOST row keeps its number and lease, so that its own execution, and no other, may still write the outcome.
			lease_number = t.lease_number + case when t.cancel_requested_at is not null or t.attempt < t.max_attempts then 1 else 0 end,
			lease_id = case when t.cancel_requested_at is not null or t.attempt < t.max_attempts then null else t.lease_id end,
			finished_at = case when t.cancel_requested_at is null and t.attempt < t.max_attempts then null else p_now end
		from dead d
		where t.namespace = p_lease.namespace and t.id = d.id
		returning t.id, t.status, t.attempt, t.lease_number - case when t.lease_id is null then 1 else 0 end as lost_number, t.started_at
	), noted as (
		insert into pgqueue.attempt (namespace, task_id, lease_number, attempt, outcome, worker, started_at, finished_at, error)
		select p_lease.namespace, k.id, k.lost_number, k.attempt, 'LOST', p_lease.worker, k.started_at, p_now,
			format('lease of worker %s expired at %s', p_lease.worker, p_lease.expires_at)
		from taken k
		on conflict do nothing
	)
	select count(*) filter (where k.status = 'READY'), count(*) filter (where k.status = 'LOST'), count(*) filter (where k.status = 'DISCARDED')
	into v_reaped.requeued, v_reaped.lost, v_reaped.discarded
	from taken k;
	return v_reaped;
end
$$;
