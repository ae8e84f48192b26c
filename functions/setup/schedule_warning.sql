create or replace function pgqueue.schedule_warning(
	task_name text,
	namespace text default null)
returns text
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	return (
		select format('Task type %s is declared unique (%s): a scheduled enqueue coalesces with a pending manual enqueue of the same key, and the scheduled run is then skipped.',
			to_jsonb(y.name::text), concat_ws(' and ', case when y.active_required then 'active key' end, case when y.window_required then 'window key' end))
		from pgqueue.task_type y
		where y.namespace = coalesce(schedule_warning.namespace, 'default') and y.name = schedule_warning.task_name
			and (y.active_required or y.window_required));
end
$$;
comment on function pgqueue.schedule_warning(text, text) is
'What to know before a task type is enqueued by a schedule (pg_cron, cron): a sentence when the type is declared unique, or null when there is nothing to warn of.';
