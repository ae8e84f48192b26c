create or replace function pgqueue.check_invariants(
	namespace text default null)
returns setof pgqueue.violation
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text;
begin
	for v_namespace in select n from pgqueue._namespaces(check_invariants.namespace) n loop
		return query
		select v_namespace, b.rule, b.id, b.details
		from (
			select 'one pending task for each active key' as rule, t.id, format('%s pending tasks have lock key %s', count(*) over same_key, encode(t.lock_key, 'hex')) as details,
				count(*) over same_key as n
			from pgqueue.task t
			where t.namespace = v_namespace and t.status in ('READY', 'RUNNING') and t.lock_key is not null
			window same_key as (partition by t.lock_key)
		) b
		where b.n > 1
		union all
		select v_namespace, 'a pending task holds its active key', t.id,
			format('its key %s points to %s', encode(t.lock_key, 'hex'), coalesce(l.task_id::text, 'no task'))
		from pgqueue.task t
		-- limit 1 keeps the planner, which may know nothing of the tables yet, from a join that reads them whole.
		left join lateral (
			select u.task_id from pgqueue.unique_lock u where u.namespace = v_namespace and u.key = t.lock_key limit 1
		) l on true
		where t.namespace = v_namespace and t.status in ('READY', 'RUNNING') and t.lock_key is not null
			and l.task_id is distinct from t.id
		union all
		select v_namespace, 'a key points to a task that was enqueued under it', t.id,
			format('key %s points to it, its own is %s', encode(l.key, 'hex'), coalesce(encode(t.lock_key, 'hex'), 'none'))
		from pgqueue.unique_lock l
		cross join lateral (
			select h.id, h.lock_key from pgqueue.task h where h.namespace = v_namespace and h.id = l.task_id limit 1
		) t
		where l.namespace = v_namespace and t.lock_key is distinct from l.key
		union all
		select v_namespace, 'claimable means READY', t.id, format('status %s, claimable %s', t.status, t.claimable)
		from pgqueue.task t
		where t.namespace = v_namespace and t.claimable <> (t.status = 'READY')
		union all
		select v_namespace, 'a RUNNING task has a lease', t.id, format('lease %s', coalesce(t.lease_id::text, 'none'))
		from pgqueue.task t
		where t.namespace = v_namespace and t.status = 'RUNNING'
			and (select l.id from pgqueue.lease l where l.namespace = v_namespace and l.id = t.lease_id limit 1) is null
		union all
		select v_namespace, 'a task is finished when it is settled', t.id, format('status %s, finished_at %s', t.status, coalesce(t.finished_at::text, 'null'))
		from pgqueue.task t
		where t.namespace = v_namespace and (t.finished_at is null) <> (t.status in ('READY', 'RUNNING'))
		union all
		select v_namespace, 'attempts stay within their bounds', t.id, format('attempt %s of %s, status %s', t.attempt, t.max_attempts, t.status)
		from pgqueue.task t
		where t.namespace = v_namespace
			and (t.attempt < 0 or t.attempt > t.max_attempts or t.status = 'READY' and t.attempt >= t.max_attempts)
		union all
		select v_namespace, 'a window ends after it begins', w.task_id, format('window %s of %s: %s to %s', w.window_key, w.task_name, w.accepted_at, w.expires_at)
		from pgqueue.unique_window w
		where w.namespace = v_namespace and w.expires_at <= w.accepted_at;
	end loop;
end
$$;
comment on function pgqueue.check_invariants(text) is
'Looks for rows that must not exist, such as two pending tasks of one active key. No row means that all is well. It reads every task. namespace: default all.';
