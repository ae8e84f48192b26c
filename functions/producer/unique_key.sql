create or replace function pgqueue.unique_key(
	task_name text,
	payload jsonb default null,
	queue text default null,
	namespace text default null)
returns text
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(unique_key.namespace, 'default');
	v_queue text;
begin
	select t.queue into v_queue from pgqueue.task_type t where t.namespace = v_namespace and t.name = unique_key.task_name;
	return pgqueue._derived_key(v_namespace, unique_key.task_name, coalesce(unique_key.queue, v_queue, 'default'),
		coalesce(unique_key.payload, 'null'));
end
$$;
comment on function pgqueue.unique_key(text, jsonb, text, text) is
'The active key that enqueue_unique derives when no key is given: SHA-256, as 64 hexadecimal digits, of the UTF-8 text of the canonical JSON [namespace, task name, queue, payload]. It may be given as active_key, with the same effect.
Canonical JSON is the text of jsonb: object keys unique (the last wins) and sorted by length, then by bytes; one space after each comma and colon; numbers keep their digits, so 1 and 1.0 differ, and an exponent is written out.
queue: default the declared type''s, else ''default''. payload: default JSON null. namespace: default ''default''.';
