-- Claims due tasks of one priority after a position, in the order of due time and id.
create or replace function pgqueue._claim_range(
	p_namespace text, p_queue text, p_priority integer, p_after timestamptz, p_after_id uuid, p_lease_id uuid, p_limit integer, p_now timestamptz)
returns pgqueue.claimed_task[]
language plpgsql
volatile
as $$
declare
	v_tasks pgqueue.claimed_task[];
begin
	with candidate as materialized (
		select t.id
		from pgqueue.task t
		where t.namespace = p_namespace and t.queue = p_queue and t.claimable and t.priority = p_priority
			and t.run_after <= p_now and (t.run_after, t.id) > (p_after, p_after_id)
		order by t.run_after, t.id
		limit p_limit
		for no key update skip locked
	), claimed as (
		update pgqueue.task t
		set status = 'RUNNING', claimable = false, attempt = t.attempt + 1, started_at = p_now,
			lease_id = p_lease_id, lease_number = t.lease_number + 1, cancel_requested_at = null
		from candidate c
		where t.namespace = p_namespace and t.id = c.id
		returning t.*
	)
	select array_agg(row(c.id, c.name, c.queue, c.payload, c.metadata, c.resource_keys, c.priority, c.attempt, c.max_attempts, c.lease_number,
		(c.policy ->> 'timeout')::bigint * interval '1 millisecond', c.run_after, c.created_at, p_now)::pgqueue.claimed_task
		order by c.run_after, c.id)
	into v_tasks
	from claimed c;
	return v_tasks;
end
$$;
