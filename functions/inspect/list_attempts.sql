create or replace function pgqueue.list_attempts(
	task_id uuid,
	namespace text default null)
returns setof pgqueue.attempt
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	return query
	select a.* from pgqueue.attempt a
	where a.namespace = coalesce(list_attempts.namespace, 'default') and a.task_id = list_attempts.task_id
	order by a.lease_number;
end
$$;
comment on function pgqueue.list_attempts(uuid, text) is
'The attempts of a task that did not succeed, oldest first.';
