create or replace function pgqueue.adopt_pending(
	task_name text,
	namespace text default null)
returns setof pgqueue.adoption
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(adopt_pending.namespace, 'default');
	v_type pgqueue.task_type;
	v_task record;
	v_keys record;
	v_answer pgqueue.adoption;
	v_lock bytea;
begin
	select y.* into v_type
	from pgqueue.task_type y
	where y.namespace = v_namespace and y.name = adopt_pending.task_name and y.active_selector is not null;
	if not found then
		raise exception using errcode = '22023',
			message = format('task %s has no declared active_key_selector, so no keys can be made for its tasks', to_jsonb(adopt_pending.task_name)),
			hint = 'Declare one with pgqueue.declare_task().';
	end if;
	-- Keys are taken here in the order of tasks. This keeps out other adoptions and, because those with a declared type take every
	-- bucket, the batches of this type, see _batch_locks: they would wait for each other in a circle. A second adoption
	-- must not come to a task that the first has given its key meanwhile.
	perform pg_advisory_xact_lock(1885958517, 0);
	-- Oldest first: the task that has waited longest gets the key.
	for v_task in
		select t.id, t.queue, t.payload
		from pgqueue.task t
		where t.namespace = v_namespace and t.name = v_type.name and t.status in ('READY', 'RUNNING') and t.lock_key is null
		order by t.id
	loop
		v_answer := null;
		v_answer.task_id := v_task.id;
		v_answer.adopted := false;
		if v_type.active_selector::text = '$' then
			v_answer.active_key := pgqueue._derived_key(v_namespace, v_type.name, v_task.queue, v_task.payload);
		else
			v_keys := pgqueue._select_key(v_type.name, 'active_key', v_type.active_selector, v_task.payload);
			v_answer.active_key := v_keys.key;
			v_answer.error := coalesce((v_keys.refusal).error_message, (pgqueue._key_error('active_key', v_keys.key)).error_message);
		end if;
		if v_answer.error is null then
			v_lock := pgqueue._lock_key(v_type.name, v_answer.active_key);
			v_answer.holder_id := pgqueue._reclaim_key(v_namespace, v_lock, v_task.id);
			if v_answer.holder_id is null then
				update pgqueue.task t
				set lock_key = v_lock, active_key = case when v_type.active_selector::text <> '$' then v_answer.active_key end
				where t.namespace = v_namespace and t.id = v_task.id and t.status in ('READY', 'RUNNING') and t.lock_key is null;
				v_answer.adopted := found;
				if not v_answer.adopted then
					-- It was settled meanwhile: the key row that was just written must not point to a task without the key.
					delete from pgqueue.unique_lock l
					where l.namespace = v_namespace and l.key = v_lock and l.task_id = v_task.id;
					continue;
				end if;
			end if;
		end if;
		return next v_answer;
	end loop;
end
$$;
comment on function pgqueue.adopt_pending(text, text) is
'Takes active keys for pending tasks of a declared type that have none, because they were enqueued before the type was declared; oldest first. Returns each of them: adopted, or with the pending task that holds its key, so that every key with more than one pending task is reported, or with the reason why its payload gives no key. It can be run again: adopted tasks are left alone. namespace: default ''default''.
Errors: 22023 when the type has no active_key_selector.';
