create or replace function pgqueue.get_task(
	task_id uuid,
	namespace text default null)
returns setof pgqueue.task_view
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	return query
	select v.* from pgqueue.task_view v
	where v.namespace = coalesce(get_task.namespace, 'default') and v.id = get_task.task_id;
end
$$;
comment on function pgqueue.get_task(uuid, text) is
'The task with this id, or no row when it does not exist (or was pruned).';
