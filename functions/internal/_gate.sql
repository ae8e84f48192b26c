-- The one gate: every enqueue of one task, from every function and language, passes here.
--
-- 1. resolve the type's defaults, check the arguments, make the keys; nothing is written before all of it holds
-- 2. look at the keys: a pending holder or an open window answers, without any lock
-- 3. take the keys, window key first, then active key; who loses a race looks again
-- 4. insert the task under the keys, in the same transaction
--
-- A refusal comes back as a value. At READ COMMITTED without lock_timeout there is no exception block on the way; other levels
-- and bounded waits take the detour over _guarded_gate, which calls back with p_guarded.
--
-- Expressions are few and large on purpose: PL/pgSQL prepares each anew in every transaction, and most calls are a transaction
-- of their own.
create or replace function pgqueue._gate(
	p_namespace text, p_task_name text, p_payload jsonb, p_queue text, p_priority integer,
	p_run_after timestamptz, p_delay interval,
	p_active_key text, p_window_key text, p_window_length interval,
	p_max_attempts integer, p_backoff interval, p_max_backoff interval, p_timeout interval, p_lease interval,
	p_resource_keys text[], p_metadata jsonb, p_unique boolean, p_wait boolean,
	p_guarded boolean default false, p_snapshot boolean default false)
returns pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v record;
	v_refusal pgqueue.receipt;
	v_keys record;
	v_policy jsonb;
	v_checked boolean := false;
	v_active_key text := p_active_key;
	v_derived boolean := false;
	v_lock bytea := pgqueue._lock_key(p_task_name, p_active_key);
	v_now timestamptz;
	v_id uuid;
begin
	if not p_guarded and (p_wait and current_setting('lock_timeout') = '0' and not pg_is_in_recovery()
			and current_setting('transaction_isolation') in ('read committed', 'read uncommitted')) is not true then
		return pgqueue._guarded_gate(p_namespace, p_task_name, p_payload, p_queue, p_priority, p_run_after, p_delay,
			p_active_key, p_window_key, p_window_length, p_max_attempts, p_backoff, p_max_backoff, p_timeout, p_lease,
			p_resource_keys, p_metadata, p_unique, p_wait);
	end if;

	loop
		select coalesce(y.active_required or y.window_required, false) as declared, y.policy as type_policy, y.max_payload_bytes,
			coalesce(p_queue, y.queue, 'default') as to_queue,
			coalesce(p_priority, y.priority, 0) as to_priority,
			coalesce(p_max_attempts, y.max_attempts, 10) as to_max_attempts,
			l.task_id as holder_id, t.queue, t.status, t.priority, t.run_after, t.attempt, t.created_at
		into v
		from (values (1)) one (row)
		left join pgqueue.task_type y on y.namespace = p_namespace and y.name = p_task_name
		left join pgqueue.unique_lock l on l.namespace = p_namespace and l.key = v_lock
		-- limit 1 keeps the planner, which may know nothing of the tables yet, from a join that reads them whole.
		left join lateral (
			select h.queue, h.status, h.priority, h.run_after, h.attempt, h.created_at
			from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1
		) t on true;

		if not v_checked then
			-- One cheap look at everything; what does not pass it is looked at in detail.
			if (octet_length(p_namespace) between 1 and 48 and octet_length(p_task_name) between 1 and 200
					and octet_length(v.to_queue) between 1 and 200 and v.to_priority between -100 and 100
					and v.to_max_attempts between 1 and 10000
					-- A number with a large exponent is stored in a few bytes and written in many.
					and octet_length(p_payload::text) <= 1048576
					and p_namespace || p_task_name || v.to_queue !~ E'[\u0001-\u001f\u007f-\u009f]'
					and num_nonnulls(v.max_payload_bytes, v.type_policy, p_run_after, p_delay, p_backoff, p_max_backoff, p_timeout, p_lease, p_resource_keys) = 0
				) is not true then
				v_refusal := pgqueue._argument_error(p_namespace, p_task_name, v.to_queue, v.to_priority, p_run_after, p_delay,
					v.to_max_attempts, p_backoff, p_max_backoff, p_timeout, p_lease, p_resource_keys,
					octet_length(p_payload::text), coalesce(v.max_payload_bytes, 1048576));
				if v_refusal.error_code is not null then
					return v_refusal;
				end if;
				v_policy := pgqueue._policy(v.type_policy, p_backoff, p_max_backoff, p_timeout, p_lease);
			end if;
			v_checked := true;
			if v.declared or p_window_key is not null or p_window_length is not null or p_unique and p_active_key is null then
				v_keys := pgqueue._resolve_keys(p_namespace, p_task_name, p_payload, v.to_queue, p_active_key, p_window_key, p_window_length,
					p_unique, v.declared);
				v_refusal := v_keys.refusal;
				if v_refusal.error_code is not null then
					return v_refusal;
				elsif v_keys.window_key is not null then
					return pgqueue._window_gate(p_namespace, p_task_name, p_payload, v.to_queue, v.to_priority, p_run_after, p_delay,
						v_keys.active_key, v_keys.derived, v_keys.window_key, v_keys.window_ms, v.to_max_attempts, v_policy,
						p_resource_keys, p_metadata, p_snapshot);
				end if;
				v_active_key := v_keys.active_key;
				v_derived := v_keys.derived;
				v_lock := pgqueue._lock_key(p_task_name, v_active_key);
				continue when v_lock is not null;
			elsif octet_length(p_active_key) not between 1 and 512 or p_active_key ~ E'[\u0001-\u001f\u007f-\u009f]' then
				return pgqueue._key_error('active_key', p_active_key);
			end if;
		end if;

		if v.status in ('READY', 'RUNNING') then
			if p_snapshot and pgqueue._probe_task(p_namespace, v.holder_id) then
				return pgqueue._race('holder_changed', p_task_name, v_active_key, null, v.holder_id, v_active_key);
			end if;
			return row(1, v.holder_id, 'REUSED', 'ACTIVE', false, v.queue, v.status, v.priority, v.run_after, v.attempt, v.created_at,
				null, null, null, null, null)::pgqueue.receipt;
		end if;
		v_now := pgqueue._now();
		v_id := pgqueue._new_id(v_now);
		exit when v_lock is null;
		-- Nobody holds the key, or its holder is settled or gone: staleness is read from the holder's row.
		if v.holder_id is null then
			insert into pgqueue.unique_lock (namespace, key, task_id)
			values (p_namespace, v_lock, v_id)
			on conflict do nothing;
			exit when found;
		else
			exit when pgqueue._take_over(p_namespace, v_lock, v.holder_id, v_id);
		end if;
	end loop;

	insert into pgqueue.task (namespace, id, name, queue, status, claimable, priority, max_attempts, run_after, created_at,
		lock_key, active_key, payload, metadata, resource_keys, policy)
	values (p_namespace, v_id, p_task_name, v.to_queue, 'READY', true, v.to_priority, v.to_max_attempts,
		coalesce(p_run_after, v_now + p_delay, v_now), v_now,
		v_lock, case when not v_derived then v_active_key end, p_payload, p_metadata, p_resource_keys, v_policy);
	return row(1, v_id, 'CREATED', null, false, v.to_queue, 'READY', v.to_priority, coalesce(p_run_after, v_now + p_delay, v_now), 0, v_now,
		null, null, null, null, null)::pgqueue.receipt;
end
$$;
