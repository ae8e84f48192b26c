-- Keeps the batches of the two paths apart. The set-based path takes keys in their order, the exact one in input order: these locks
-- keep the second from running beside any other batch that has a key of the same bucket, so that no two batches wait for each other
-- in a circle. Buckets, because a lock for each key would exhaust the server's lock table.
create or replace function pgqueue._batch_locks(p_items pgqueue._item[], p_declared boolean, p_set boolean)
returns void
language plpgsql
volatile
as $$
begin
	perform case when p_set then pg_advisory_xact_lock_shared(1885958517, b.bucket) else pg_advisory_xact_lock(1885958517, b.bucket) end
	from (
		select get_byte(k.key, 0) % 64 as bucket
		from unnest(p_items) i
		cross join lateral (values (i.lock_key), (pgqueue._window_key(i.task_name, i.window_key))) k (key)
		where k.key is not null
		union
		-- Declared keys are not known yet.
		select g.bucket from generate_series(0, 63) g (bucket) where p_declared
		order by 1
		offset 0
	) b;
end
$$;
