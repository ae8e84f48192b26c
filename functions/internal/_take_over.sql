-- Moves the key of a settled or vanished holder to a new task. False: the key or its holder changed meanwhile, read again.
-- Locks the key row, then the holder's row. A holder that pgqueue.retry() has put back is seen before its row is locked, because
-- retry locks the key row too; the second look, under the row lock, is for a status that something else wrote.
create or replace function pgqueue._take_over(p_namespace text, p_key bytea, p_holder_id uuid, p_task_id uuid)
returns boolean
language plpgsql
volatile
as $$
begin
	perform from pgqueue.unique_lock l
	where l.namespace = p_namespace and l.key = p_key and l.task_id = p_holder_id
	for update;
	if not found then
		return false;
	end if;
	perform from pgqueue.task t
	where t.namespace = p_namespace and t.id = p_holder_id and t.status in ('READY', 'RUNNING');
	if found then
		return false;
	end if;
	perform from pgqueue.task t
	where t.namespace = p_namespace and t.id = p_holder_id
	for update;
	update pgqueue.unique_lock l
	set task_id = p_task_id
	where l.namespace = p_namespace and l.key = p_key and l.task_id = p_holder_id
		and not exists (
			select from pgqueue.task t
			where t.namespace = p_namespace and t.id = p_holder_id and t.status in ('READY', 'RUNNING'));
	return found;
end
$$;
