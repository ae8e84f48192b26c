-- Claims due tasks of the priorities below one bound and above another, the higher first. One priority after the other, so that each
-- look is one range of the index and tasks that are not due yet are never walked.
create or replace function pgqueue._claim_priorities(
	p_namespace text, p_queue text, p_below integer, p_above integer, p_lease_id uuid, p_limit integer, p_now timestamptz)
returns pgqueue.claimed_task[]
language plpgsql
volatile
as $$
declare
	v_tasks pgqueue.claimed_task[];
	v_left integer := p_limit;
	v_priority integer := p_below;
begin
	while v_left > 0 loop
		select t.priority::integer into v_priority
		from pgqueue.task t
		where t.namespace = p_namespace and t.queue = p_queue and t.claimable and t.priority < v_priority and t.priority > p_above
		order by t.priority desc
		limit 1;
		exit when not found;
		v_tasks := v_tasks || pgqueue._claim_range(p_namespace, p_queue, v_priority, '-infinity', '00000000-0000-0000-0000-000000000000',
			p_lease_id, v_left, p_now);
		v_left := p_limit - coalesce(cardinality(v_tasks), 0);
	end loop;
	return v_tasks;
end
$$;
