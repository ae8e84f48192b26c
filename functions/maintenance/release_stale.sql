create or replace function pgqueue.release_stale(
	max_keys integer default null,
	namespace text default null)
returns bigint
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
	v_max integer := coalesce(release_stale.max_keys, 10000);
	v_namespace text;
	v_start bytea := sha256(uuid_send(gen_random_uuid()));
	v_deleted bigint;
	v_total bigint := 0::bigint;
begin
	if v_max < 1 then
		raise exception using errcode = '22023', message = format('max_keys is %s, it must be positive', v_max);
	end if;
	for v_namespace in select n from pgqueue._namespaces(release_stale.namespace) n loop
		-- Keys are hashes: a random start and a wrap-around cover the whole table in time, without a remembered position.
		with looked_at as (
			(select l.key, l.task_id, 1 as part
			from pgqueue.unique_lock l where l.namespace = v_namespace and l.key >= v_start
			order by l.key limit v_max)
			union all
			(select l.key, l.task_id, 2
			from pgqueue.unique_lock l where l.namespace = v_namespace and l.key < v_start
			order by l.key limit v_max)
			order by part, key
			limit v_max
		), stale as materialized (
			select l.key, l.task_id
			from looked_at k
			join pgqueue.unique_lock l on l.namespace = v_namespace and l.key = k.key and l.task_id = k.task_id
			where not exists (
				select from pgqueue.task t
				where t.namespace = v_namespace and t.id = k.task_id and t.status in ('READY', 'RUNNING'))
			order by l.key
			for update of l skip locked
		), settled as materialized (
			-- A holder whose row somebody is writing (an operator's retry) is left for another time.
			select t.id
			from stale s
			join pgqueue.task t on t.namespace = v_namespace and t.id = s.task_id
			where t.status not in ('READY', 'RUNNING')
			for update of t skip locked
		)
		delete from pgqueue.unique_lock l
		using stale s
		where l.namespace = v_namespace and l.key = s.key
			and (s.task_id in (select d.id from settled d)
				or not exists (select from pgqueue.task t where t.namespace = v_namespace and t.id = s.task_id));
		get diagnostics v_deleted = row_count;
		v_total := v_total + v_deleted;
	end loop;
	return v_total;
end
$$;
comment on function pgqueue.release_stale(integer, text) is
'Deletes lock rows of active keys whose task is settled or gone, for keys that nobody asks for again. Hygiene only: an enqueue reads staleness from the task itself. Returns how many.
max_keys: how many keys to look at per namespace, from a random one on; default 10000. namespace: default all. Waits for no lock. Errors: 22023 bad argument.';
