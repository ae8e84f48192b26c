-- The set-based path of enqueue_many, at READ COMMITTED: items without windows and declared keys. Answers as the gate would, item
-- after item: the first of a key that nobody holds creates, the others find what it created.
create or replace function pgqueue._batch_set(p_namespace text, p_items pgqueue._item[], p_now timestamptz)
returns setof pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v_open bytea[];
	v_won bytea[] := array[]::bytea[];
	v_held pgqueue.receipt[] := array[]::pgqueue.receipt[];
	v_held_keys bytea[] := array[]::bytea[];
	v_item record;
	v record;
begin
	v_open := array(select distinct i.lock_key from unnest(p_items) i where i.lock_key is not null);
	if cardinality(v_open) > 0 then
		select array_agg(row(1, l.task_id, 'REUSED', 'ACTIVE', false, t.queue, t.status, t.priority, t.run_after, t.attempt, t.created_at,
				null, null, null, null, null)::pgqueue.receipt) as receipts,
			array_agg(l.key) as keys
		into v
		from unnest(v_open) k (key)
		-- limit 1: see _gate
		cross join lateral (
			select u.key, u.task_id from pgqueue.unique_lock u where u.namespace = p_namespace and u.key = k.key limit 1
		) l
		cross join lateral (select h.* from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1) t
		where t.status in ('READY', 'RUNNING');
		if v.keys is not null then
			v_held := v.receipts;
			v_held_keys := v.keys;
			v_open := array(select unnest(v_open) except select unnest(v.keys));
		end if;
	end if;
	-- Each key is taken or found held before the next one is touched, in the order of the keys as in every batch: whoever waits has
	-- only lower keys, so no two batches wait for each other in a circle. One statement for all of them would have to come back for
	-- a lower key that it did not get.
	for v_item in
		select distinct on (i.lock_key) i.lock_key, i.id
		from unnest(v_open) o (key)
		join unnest(p_items) i on i.lock_key = o.key
		order by i.lock_key, i.ordinal
	loop
		loop
			insert into pgqueue.unique_lock (namespace, key, task_id)
			values (p_namespace, v_item.lock_key, v_item.id)
			on conflict do nothing;
			if found then
				v_won := v_won || v_item.lock_key;
				exit;
			end if;
			select l.task_id, t.queue, t.status, t.priority, t.run_after, t.attempt, t.created_at into v
			from pgqueue.unique_lock l
			left join lateral (select h.* from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1) t on true
			where l.namespace = p_namespace and l.key = v_item.lock_key;
			if v.status in ('READY', 'RUNNING') then
				v_held := v_held || row(1, v.task_id, 'REUSED', 'ACTIVE', false, v.queue, v.status, v.priority, v.run_after, v.attempt,
					v.created_at, null, null, null, null, null)::pgqueue.receipt;
				v_held_keys := v_held_keys || v_item.lock_key;
				exit;
			elsif v.task_id is not null and pgqueue._take_over(p_namespace, v_item.lock_key, v.task_id, v_item.id) then
				v_won := v_won || v_item.lock_key;
				exit;
			end if;
		end loop;
	end loop;

	return query
	with item as (
		select i.*, row_number() over (partition by i.lock_key order by i.ordinal) as turn,
			coalesce(i.run_after, p_now + i.delay, p_now) as due
		from unnest(p_items) i
	), answer as (
		select i.lock_key, i.ordinal as creator, i.id as task_id, i.queue, 'READY'::pgqueue.task_status as status, i.priority,
			i.due as run_after, 0 as attempt, p_now as created_at
		from unnest(v_won) w (key)
		join item i on i.lock_key = w.key and i.turn = 1
		union all
		select h.key, null, h.task_id, h.queue, h.status, h.priority, h.run_after, h.attempt, h.created_at
		from rows from (unnest(v_held_keys), unnest(v_held))
			h (key, ordinal, task_id, disposition, duplicate_match, policy_drift, queue, status, priority, run_after, attempt, created_at)
	), settled as (
		select i.*, a.creator, a.task_id, a.queue as to_queue, a.status, a.priority as to_priority, a.run_after as to_run_after,
			a.attempt, a.created_at, a.lock_key is null or coalesce(a.creator = i.ordinal, false) as creates
		from item i
		left join answer a on a.lock_key = i.lock_key
	), created as (
		insert into pgqueue.task (namespace, id, name, queue, status, claimable, priority, max_attempts, run_after, created_at,
			lock_key, active_key, payload, metadata, policy)
		select p_namespace, s.id, s.task_name, s.queue, 'READY', true, s.priority, s.max_attempts, s.due, p_now,
			s.lock_key, case when not s.derived then s.active_key end, s.payload, s.metadata, s.policy
		from settled s
		where s.creates
		order by s.ordinal
	)
	select s.ordinal, coalesce(s.task_id, s.id),
		case when s.creates then 'CREATED' else 'REUSED' end::pgqueue.disposition,
		case when not s.creates then 'ACTIVE' end::pgqueue.duplicate_match,
		false, coalesce(s.to_queue, s.queue), coalesce(s.status, 'READY'), coalesce(s.to_priority, s.priority),
		coalesce(s.to_run_after, s.due), coalesce(s.attempt, 0), coalesce(s.created_at, p_now),
		null::text, null::text, null::jsonb, null::uuid, null::uuid
	from settled s
	order by s.ordinal;
end
$$;
