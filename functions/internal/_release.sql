-- Frees active keys of tasks that have just become SUCCESSFUL; by (key, task id), so a key that moved on stays. This keeps the
-- lock table small, nothing depends on it: a row that another transaction is looking at is left for release_stale(), because
-- the caller holds task rows, and waiting for a key row here would break the lock order.
create or replace function pgqueue._release(p_namespace text, p_keys bytea[], p_task_ids uuid[])
returns void
language plpgsql
volatile
as $$
begin
	with held as materialized (
		select l.key
		from pgqueue.unique_lock l
		where l.namespace = p_namespace and l.key = any (p_keys) and l.task_id = any (p_task_ids)
		for update skip locked
	)
	delete from pgqueue.unique_lock l
	using held h
	where l.namespace = p_namespace and l.key = h.key;
end
$$;
