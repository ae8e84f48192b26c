create or replace function pgqueue.forget_window(
	task_name text,
	window_key text,
	namespace text default null)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
	delete from pgqueue.unique_window w
	where w.namespace = coalesce(forget_window.namespace, 'default')
		and w.key = pgqueue._window_key(forget_window.task_name, forget_window.window_key);
	return found;
end
$$;
comment on function pgqueue.forget_window(text, text, text) is
'Ends a window early: the next enqueue with this window key is accepted as a new request. The task is not touched. Returns whether there was a window.';
