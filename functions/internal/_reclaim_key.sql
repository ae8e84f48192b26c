-- Takes an active key for a task that runs again, or returns the pending task that holds it. Locks the key row before the caller
-- writes the task's row, so that an enqueue that is about to take the key over waits here and then sees the task pending.
create or replace function pgqueue._reclaim_key(p_namespace text, p_key bytea, p_task_id uuid)
returns uuid
language plpgsql
volatile
as $$
declare
	v_holder uuid;
begin
	loop
		select l.task_id into v_holder
		from pgqueue.unique_lock l
		where l.namespace = p_namespace and l.key = p_key
		for update;
		if not found then
			insert into pgqueue.unique_lock (namespace, key, task_id) values (p_namespace, p_key, p_task_id) on conflict do nothing;
			if found then
				return null;
			end if;
			continue;
		end if;
		if v_holder = p_task_id then
			return null;
		end if;
		perform from pgqueue.task t
		where t.namespace = p_namespace and t.id = v_holder and t.status in ('READY', 'RUNNING');
		if found then
			return v_holder;
		end if;
		if pgqueue._take_over(p_namespace, p_key, v_holder, p_task_id) then
			return null;
		end if;
	end loop;
end
$$;
