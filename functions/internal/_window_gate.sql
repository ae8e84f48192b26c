-- The gate's look and take for an enqueue with a window key, alone or beside an active key. Same order everywhere: window key,
-- then active key, then the holder's row.
create or replace function pgqueue._window_gate(
	p_namespace text, p_task_name text, p_payload jsonb, p_queue text, p_priority integer, p_run_after timestamptz, p_delay interval,
	p_active_key text, p_derived boolean, p_window_key text, p_window_ms bigint, p_max_attempts integer, p_policy jsonb,
	p_resource_keys text[], p_metadata jsonb, p_snapshot boolean)
returns pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v_lock bytea := pgqueue._lock_key(p_task_name, p_active_key);
	v_window bytea := pgqueue._window_key(p_task_name, p_window_key);
	v_fingerprint bytea := pgqueue._fingerprint(p_task_name, p_payload, p_queue, p_priority, p_run_after, p_delay,
		p_active_key, p_window_key, p_resource_keys, p_metadata);
	v_policy_hash bytea := pgqueue._policy_hash(p_max_attempts, p_policy);
	v_seen pgqueue.unique_window;
	v_open boolean := false;
	v_mine boolean := false;
	v_taken_at timestamptz;
	v_holder record;
	v_held boolean;
	v_now timestamptz;
	v_id uuid := pgqueue._new_id(pgqueue._now());
	v_match pgqueue.duplicate_match;
begin
	loop
		if not v_mine then
			select w.* into v_seen from pgqueue.unique_window w where w.namespace = p_namespace and w.key = v_window;
			v_now := pgqueue._now();
			v_open := coalesce(v_now < v_seen.expires_at, false);
			if p_snapshot and v_seen.key is not null and pgqueue._probe_window(p_namespace, v_window) then
				return pgqueue._race('window_changed', p_task_name, p_active_key);
			elsif v_open and v_seen.fingerprint <> v_fingerprint then
				return pgqueue._refusal('PQ001',
					format('uniqueness_conflict: window key %s of task %s stands for another request, accepted as task %s',
						to_jsonb(p_window_key), to_jsonb(p_task_name), v_seen.task_id),
					jsonb_build_object('task_id', v_seen.task_id, 'window_key', p_window_key, 'expires_at', v_seen.expires_at),
					v_seen.task_id);
			end if;
		end if;
		select l.task_id as holder_id, t.queue, t.status, t.priority, t.run_after, t.attempt, t.created_at, t.max_attempts, t.policy
		into v_holder
		from pgqueue.unique_lock l
		left join lateral (select h.* from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1) t on true
		where l.namespace = p_namespace and l.key = v_lock;
		v_held := coalesce(v_holder.status in ('READY', 'RUNNING'), false);
		if p_snapshot and v_held and pgqueue._probe_task(p_namespace, v_holder.holder_id) then
			return pgqueue._race('holder_changed', p_task_name, p_active_key, null, v_holder.holder_id);
		end if;

		if v_open and v_held and v_holder.holder_id <> v_seen.task_id then
			-- The two looks are two statements: where the window ended between them, the holder is that of the next request.
			perform from pgqueue.unique_window w
			where w.namespace = p_namespace and w.key = v_window and w.task_id = v_seen.task_id
				and w.accepted_at = v_seen.accepted_at and pgqueue._now() < w.expires_at;
			continue when not found;
			return pgqueue._refusal('PQ002',
				format('uniqueness_composition_conflict: window key %s of task %s points to task %s, while its active key is held by task %s',
					to_jsonb(p_window_key), to_jsonb(p_task_name), v_seen.task_id, v_holder.holder_id),
				jsonb_build_object('task_id', v_seen.task_id, 'holder_id', v_holder.holder_id),
				v_seen.task_id, v_holder.holder_id);
		elsif v_open and v_held then
			v_match := 'BOTH';
			exit;
		elsif v_open then
			-- The window answers also for a task that has settled or was pruned.
			select v_seen.task_id as holder_id, t.queue, t.status, t.priority, t.run_after, t.attempt, t.created_at, t.max_attempts, t.policy
			into v_holder
			from (values (1)) one (row)
			left join lateral (select h.* from pgqueue.task h where h.namespace = p_namespace and h.id = v_seen.task_id limit 1) t on true;
			v_match := 'WINDOW';
			exit;
		elsif v_held then
			-- A new window key beside a pending holder: link it, so that a later retry of this request finds the holder.
			v_seen.policy_hash := pgqueue._policy_hash(v_holder.max_attempts, v_holder.policy);
			if v_mine then
				update pgqueue.unique_window w
				set task_id = v_holder.holder_id, policy_hash = v_seen.policy_hash
				where w.namespace = p_namespace and w.key = v_window;
			else
				continue when not pgqueue._take_window(p_namespace, v_window, v_holder.holder_id, v_fingerprint, v_seen.policy_hash,
					p_task_name, p_window_key, v_now, p_window_ms, v_seen.accepted_at);
				v_taken_at := v_now;
			end if;
			v_match := 'ACTIVE';
			exit;
		end if;

		if not v_mine then
			v_mine := pgqueue._take_window(p_namespace, v_window, v_id, v_fingerprint, v_policy_hash,
				p_task_name, p_window_key, v_now, p_window_ms, v_seen.accepted_at);
			continue when not v_mine;
			v_taken_at := v_now;
		end if;
		exit when v_lock is null;
		if v_holder.holder_id is null then
			insert into pgqueue.unique_lock (namespace, key, task_id)
			values (p_namespace, v_lock, v_id)
			on conflict do nothing;
			exit when found;
		else
			exit when pgqueue._take_over(p_namespace, v_lock, v_holder.holder_id, v_id);
		end if;
	end loop;

	v_now := pgqueue._now();
	if v_now - v_taken_at > interval '1 millisecond' then
		-- The call waited for another transaction since: a window counts from the acceptance.
		update pgqueue.unique_window w
		set accepted_at = v_now, expires_at = v_now + p_window_ms * interval '1 millisecond'
		where w.namespace = p_namespace and w.key = v_window;
	end if;
	if v_match is not null then
		return row(1, v_holder.holder_id, 'REUSED', v_match, v_seen.policy_hash <> v_policy_hash,
			v_holder.queue, v_holder.status, v_holder.priority, v_holder.run_after, v_holder.attempt, v_holder.created_at,
			null, null, null, null, null)::pgqueue.receipt;
	end if;
	insert into pgqueue.task (namespace, id, name, queue, status, claimable, priority, max_attempts, run_after, created_at,
		lock_key, active_key, payload, metadata, resource_keys, policy)
	values (p_namespace, v_id, p_task_name, p_queue, 'READY', true, p_priority, p_max_attempts,
		coalesce(p_run_after, v_now + p_delay, v_now), v_now,
		v_lock, case when not p_derived then p_active_key end, p_payload, p_metadata, p_resource_keys, p_policy);
	return row(1, v_id, 'CREATED', null, false, p_queue, 'READY', p_priority, coalesce(p_run_after, v_now + p_delay, v_now), 0, v_now,
		null, null, null, null, null)::pgqueue.receipt;
end
$$;
