create or replace function pgqueue.resume_queue(
	queue text,
	namespace text default null)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(resume_queue.namespace, 'default');
begin
	update pgqueue.queue q
	set paused_at = null
	where q.namespace = v_namespace and q.name = resume_queue.queue and q.paused_at is not null;
	if found then
		perform pg_notify('pgqueue:' || v_namespace, resume_queue.queue);
	end if;
end
$$;
comment on function pgqueue.resume_queue(text, text) is
'Lets claims from a paused queue go on, and wakes workers that wait for it. Resuming a queue that is not paused changes nothing.';
