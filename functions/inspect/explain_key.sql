create or replace function pgqueue.explain_key(
	task_name text,
	active_key text default null,
	window_key text default null,
	namespace text default null)
returns setof pgqueue.key_explanation
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(explain_key.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v record;
	v_answer pgqueue.key_explanation;
begin
	if explain_key.active_key is not null then
		select l.task_id, t.status, t.created_at, t.run_after, t.attempt, t.max_attempts, s.worker, s.expires_at into v
		from pgqueue.unique_lock l
		left join lateral (select h.* from pgqueue.task h where h.namespace = v_namespace and h.id = l.task_id limit 1) t on true
		left join pgqueue.lease s on s.namespace = v_namespace and s.id = t.lease_id and t.status = 'RUNNING'
		where l.namespace = v_namespace and l.key = pgqueue._lock_key(explain_key.task_name, explain_key.active_key);
		v_answer.kind := 'ACTIVE';
		v_answer.task_id := v.task_id;
		v_answer.status := v.status;
		v_answer.held := coalesce(v.status in ('READY', 'RUNNING'), false);
		v_answer.since := case when v_answer.held then v.created_at end;
		v_answer.worker := v.worker;
		v_answer.explanation := case
			when v.task_id is null then 'The key is free: no task has it.'
			when v.status is null then format('The key is free: its last task %s was pruned.', v.task_id)
			when not v_answer.held then format('The key is free: its last task %s is %s.', v.task_id, v.status)
			when v.status = 'READY' then format(
				'Task %s holds the key and waits until %s for attempt %s of %s. The key comes free when the task is settled, or by pgqueue.discard().',
				v.task_id, v.run_after, v.attempt + 1, v.max_attempts)
			else format(
				'Task %s holds the key and runs at worker %s, attempt %s of %s. The key comes free when the task is settled; if the worker is dead, after its lease has expired at %s and the task was reaped.',
				v.task_id, coalesce(v.worker, 'unknown'), v.attempt, v.max_attempts, coalesce(v.expires_at::text, 'an unknown time'))
		end;
		return next v_answer;
	end if;
	if explain_key.window_key is not null then
		v_answer := null;
		select w.task_id, w.accepted_at, w.expires_at, t.status into v
		from pgqueue.unique_window w
		left join lateral (select h.* from pgqueue.task h where h.namespace = v_namespace and h.id = w.task_id limit 1) t on true
		where w.namespace = v_namespace and w.key = pgqueue._window_key(explain_key.task_name, explain_key.window_key);
		v_answer.kind := 'WINDOW';
		v_answer.task_id := v.task_id;
		v_answer.status := v.status;
		v_answer.held := coalesce(v_now < v.expires_at, false);
		v_answer.since := v.accepted_at;
		v_answer.until := v.expires_at;
		v_answer.explanation := case
			when v.task_id is null then 'The key is free: no request has it.'
			when not v_answer.held then format('The key is free: its window ended at %s.', v.expires_at)
			else format('The key stands for the request accepted at %s as task %s (%s), until %s. pgqueue.forget_window() frees it earlier.',
				v.accepted_at, v.task_id, coalesce(v.status::text, 'pruned'), v.expires_at)
		end;
		return next v_answer;
	end if;
end
$$;
comment on function pgqueue.explain_key(text, text, text, text) is
'Who holds a key, since when, in what state, and what would free it: one row for active_key and one for window_key, of those that are given. active_key: an explicit key, or a derived one from unique_key. Takes no row lock. namespace: default ''default''.';
