create or replace function pgqueue.pending_holder(
	task_name text,
	active_key text,
	namespace text default null)
returns uuid
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(pending_holder.namespace, 'default');
	v_holder uuid;
begin
	select t.id into v_holder
	from pgqueue.unique_lock l
	cross join lateral (select h.* from pgqueue.task h where h.namespace = v_namespace and h.id = l.task_id limit 1) t
	where l.namespace = v_namespace
		and l.key = pgqueue._lock_key(pending_holder.task_name, pending_holder.active_key)
		and t.status in ('READY', 'RUNNING');
	return v_holder;
end
$$;
comment on function pgqueue.pending_holder(text, text, text) is
'Id of the pending (READY or RUNNING) task that holds an active key, or null when the key is free. For information: the answer may be old when it arrives; to enqueue only once use enqueue_unique.';
revoke all on function pgqueue.pending_holder(text, text, text) from public;
