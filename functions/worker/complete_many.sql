create or replace function pgqueue.complete_many(
	task_ids uuid[],
	lease_numbers integer[],
	results jsonb[] default null,
	namespace text default null)
returns setof uuid
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
	v_namespace text := coalesce(complete_many.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_done uuid[];
	v_locks bytea[];
begin
	if cardinality(complete_many.task_ids) <> cardinality(complete_many.lease_numbers)
		or cardinality(complete_many.task_ids) <> cardinality(complete_many.results) then
		raise exception using errcode = '22023', message = format('task_ids has %s elements, lease_numbers %s, results %s: they must agree',
			cardinality(complete_many.task_ids), cardinality(complete_many.lease_numbers), cardinality(complete_many.results));
	end if;
	with done as (
		update pgqueue.task t
		set status = 'SUCCESSFUL', finished_at = v_now, result = u.result
		from unnest(complete_many.task_ids, complete_many.lease_numbers, complete_many.results) u (id, lease_number, result)
		where t.namespace = v_namespace and t.id = u.id and t.lease_number = u.lease_number
			and t.status in ('RUNNING', 'LOST')
		returning t.id, t.lock_key
	)
	select array_agg(d.id), array_agg(d.lock_key) filter (where d.lock_key is not null)
	into v_done, v_locks
	from done d;
	if v_locks is not null then
		perform pgqueue._release(v_namespace, v_locks, v_done);
	end if;
	if cardinality(complete_many.task_ids) > coalesce(cardinality(v_done), 0) then
		return query
		select u.id from unnest(complete_many.task_ids) u (id) where u.id <> all (coalesce(v_done, '{}'));
	end if;
end
$$;
comment on function pgqueue.complete_many(uuid[], integer[], jsonb[], text) is
'As complete, for many tasks in one statement. Returns the ids whose outcome was not written because their lease was lost; none when all went well. Errors: 22023 when the arrays differ in length.';
