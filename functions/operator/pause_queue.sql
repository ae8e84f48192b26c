create or replace function pgqueue.pause_queue(
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
	v_now timestamptz := pgqueue._now();
	v_namespace text := coalesce(pause_queue.namespace, 'default');
	v_error text := coalesce(pgqueue._name_error('namespace', v_namespace, 48), pgqueue._name_error('queue', pause_queue.queue, 200));
begin
	if v_error is not null then
		raise exception using errcode = '22023', message = v_error;
	end if;
	insert into pgqueue.queue as q (namespace, name, paused_at)
	values (v_namespace, pause_queue.queue, v_now)
	on conflict on constraint queue_pkey do update set paused_at = coalesce(q.paused_at, excluded.paused_at);
end
$$;
comment on function pgqueue.pause_queue(text, text) is
'Stops claims from a queue. Tasks that run go on, and enqueues are accepted. Pausing a paused queue changes nothing. Errors: 22023 bad name.';
