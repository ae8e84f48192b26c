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
	v_taken bytea[];
	v_held pgqueue.receipt[] := array[]::pgqueue.receipt[];
	v_held_keys bytea[] := array[]::bytea[];
	v_stale record;
	v record;
begin
	-- In the order of the keys, as in every batch: two batches never wait for each other in a circle.
	v_open := array(select distinct i.lock_key from unnest(p_items) i where i.lock_key is not null order by 1);
	while cardinality(v_open) > 0 loop
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
			v_held := v_held || v.receipts;
			v_held_keys := v_held_keys || v.keys;
			v_open := array(select unnest(v_open) except select unnest(v.keys) order by 1);
			exit when cardinality(v_open) = 0;
		end if;
		with taken as (
			insert into pgqueue.unique_lock (namespace, key, task_id)
			select p_namespace, f.lock_key, f.id
			from (
				select distinct on (i.lock_key) i.lock_key, i.id
				from unnest(v_open) o (key)
				join unnest(p_items) i on i.lock_key = o.key
				order by i.lock_key, i.ordinal
			) f
			order by f.lock_key
			on conflict do nothing
			returning key
		)
		select coalesce(array_agg(k.key), '{}') into v_taken from taken k;
		v_won := v_won || v_taken;
		if cardinality(v_taken) < cardinality(v_open) then
			-- What is left has a stale holder, or a new one that the next look finds.
			for v_stale in
				select l.key, l.task_id as holder_id, f.id
				from (
					select distinct on (i.lock_key) i.lock_key, i.id
					from (select unnest(v_open) except select unnest(v_taken)) o (key)
					join unnest(p_items) i on i.lock_key = o.key
					order by i.lock_key, i.ordinal
				) f
				cross join lateral (
					select u.key, u.task_id from pgqueue.unique_lock u where u.namespace = p_namespace and u.key = f.lock_key limit 1
				) l
				where not exists (
					select from pgqueue.task t
					where t.namespace = p_namespace and t.id = l.task_id and t.status in ('READY', 'RUNNING'))
				order by l.key
			loop
				if pgqueue._take_over(p_namespace, v_stale.key, v_stale.holder_id, v_stale.id) then
					v_taken := v_taken || v_stale.key;
					v_won := v_won || v_stale.key;
				end if;
			end loop;
		end if;
		v_open := array(select unnest(v_open) except select unnest(v_taken) order by 1);
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
