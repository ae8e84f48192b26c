create or replace function pgqueue.queue_stats(
	namespace text default null)
returns setof pgqueue.queue_stat
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(queue_stats.namespace, 'default');
	v_now timestamptz := pgqueue._now();
begin
	return query
	with counted as (
		select t.queue,
			count(*) filter (where t.status = 'READY' and t.run_after <= v_now) as ready,
			count(*) filter (where t.status = 'READY' and t.run_after > v_now) as scheduled,
			count(*) filter (where t.status = 'RUNNING') as running,
			count(*) filter (where t.status = 'SUCCESSFUL') as successful,
			count(*) filter (where t.status = 'FAILED') as failed,
			count(*) filter (where t.status = 'LOST') as lost,
			count(*) filter (where t.status = 'DISCARDED') as discarded,
			min(t.run_after) filter (where t.status = 'READY' and t.run_after <= v_now) as oldest_ready_at
		from pgqueue.task t
		where t.namespace = v_namespace
		group by t.queue
	)
	select coalesce(c.queue, q.name)::text, coalesce(c.ready, 0), coalesce(c.scheduled, 0), coalesce(c.running, 0), coalesce(c.successful, 0),
		coalesce(c.failed, 0), coalesce(c.lost, 0), coalesce(c.discarded, 0), c.oldest_ready_at, coalesce(q.paused_at is not null, false)
	from counted c
	full join (select p.name, p.paused_at from pgqueue.queue p where p.namespace = v_namespace) q on q.name = c.queue
	order by 1;
end
$$;
comment on function pgqueue.queue_stats(text) is
'Counts the tasks of a namespace by queue and state, with the time since which the longest waiting task is due. It reads every task of the namespace.';
