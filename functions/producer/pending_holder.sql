create or replace function pgqueue.pending_holder(
	task_name text,
	active_key text,
	namespace text default null)
returns setof pgqueue.receipt
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(pending_holder.namespace, 'default');
begin
	return query
	select 1, t.id, 'REUSED'::pgqueue.disposition, 'ACTIVE'::pgqueue.duplicate_match, false, t.queue::text, t.status, t.priority::integer,
		t.run_after, t.attempt, t.created_at, null::text, null::text, null::jsonb, null::uuid, null::uuid
	from pgqueue.unique_lock l
	cross join lateral (select h.* from pgqueue.task h where h.namespace = v_namespace and h.id = l.task_id limit 1) t
	where l.namespace = v_namespace
		and l.key = pgqueue._lock_key(pending_holder.task_name, pending_holder.active_key)
		and t.status in ('READY', 'RUNNING');
end
$$;
comment on function pgqueue.pending_holder(text, text, text) is
'The pending (READY or RUNNING) task that holds an active key, as the receipt that a duplicate would get; no row when the key is free. For information: the answer may be old when it arrives; to enqueue only once use enqueue_unique. Takes no row lock.
active_key: an explicit one, or a derived one from unique_key. namespace: default ''default''.';
