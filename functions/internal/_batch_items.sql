-- Parses a batch and resolves the defaults of its types. simple tells that every item passes the gate's cheap look and needs
-- neither a window nor declared keys, so that the set-based path gives the same answers as the gate item by item.
create or replace function pgqueue._batch_items(
	p_namespace text, p_items jsonb, p_now timestamptz, out items pgqueue._item[], out simple boolean, out declared boolean)
returns record
language plpgsql
volatile
as $$
declare
	v_types constant jsonb := jsonb '{"task_name": "string", "payload": "value", "queue": "string", "priority": "number",
		"run_after": "string", "delay": "string", "active_key": "string", "window_key": "string", "window_length": "string",
		"max_attempts": "number", "backoff": "string", "max_backoff": "string", "timeout": "string", "lease": "string",
		"resource_keys": "array", "metadata": "value", "unique": "boolean"}';
	v_wrong record;
begin
	select e.ordinal, m.key, m.value, v_types ->> m.key as type into v_wrong
	from jsonb_array_elements(p_items) with ordinality e (item, ordinal)
	cross join lateral jsonb_each(case when jsonb_typeof(e.item) = 'object' then e.item else '{"": 0}' end) m
	where case jsonb_typeof(m.value)
			when 'null' then v_types ? m.key
			when 'number' then v_types ->> m.key = 'value' or v_types ->> m.key = 'number' and m.value #>> '{}' ~ '^-?[0-9]{1,9}$'
			else v_types ->> m.key in ('value', jsonb_typeof(m.value))
		end is not true
	order by e.ordinal, m.key
	limit 1;
	if found then
		raise exception using errcode = '22023', message = case
			when v_wrong.key = '' and jsonb_typeof(p_items -> (v_wrong.ordinal - 1)::integer) <> 'object' then
				format('item %s is not an object', v_wrong.ordinal)
			when v_wrong.type is null then format('item %s has an unknown member %s', v_wrong.ordinal, to_jsonb(v_wrong.key))
			when v_wrong.type = 'number' then
				format('item %s: %s is %s, it must be a whole number', v_wrong.ordinal, v_wrong.key, left(v_wrong.value::text, 100))
			else format('item %s: %s is %s, it must be a JSON %s', v_wrong.ordinal, v_wrong.key, left(v_wrong.value::text, 100), v_wrong.type) end;
	end if;

	with parsed as (
		select i.*
		from rows from (jsonb_to_recordset(p_items) as (task_name text, payload jsonb, queue text, priority integer,
			run_after timestamptz, delay interval, active_key text, window_key text, window_length interval,
			max_attempts integer, backoff interval, max_backoff interval, timeout interval, lease interval,
			resource_keys text[], metadata jsonb, "unique" boolean)) with ordinality i
	), resolved as (
		select i.ordinality::integer as ordinal, i.task_name, coalesce(i.payload, 'null') as payload,
			coalesce(i.queue, y.queue, 'default') as queue, coalesce(i.priority, y.priority, 0) as priority,
			i.run_after, i.delay, i.active_key, i.window_key, i.window_length,
			coalesce(i.max_attempts, y.max_attempts, 10) as max_attempts,
			i.backoff, i.max_backoff, i.timeout, i.lease, i.resource_keys, i.metadata, coalesce(i."unique", false) as is_unique,
			y.policy, y.max_payload_bytes, coalesce(y.active_required or y.window_required, false) as declared,
			coalesce(i."unique" and i.active_key is null and i.window_key is null, false) as derived
		from parsed i
		left join pgqueue.task_type y on y.namespace = p_namespace and y.name = i.task_name
	)
	select array_agg(row(r.ordinal, r.task_name, r.payload, r.queue, r.priority, r.run_after, r.delay, r.active_key, r.window_key,
			r.window_length, r.max_attempts, r.backoff, r.max_backoff, r.timeout, r.lease, r.resource_keys, r.metadata, r.is_unique,
			r.policy,
			pgqueue._lock_key(r.task_name, case when r.derived
				then pgqueue._derived_key(p_namespace, r.task_name, r.queue, r.payload) else r.active_key end),
			r.derived, pgqueue._new_id(p_now))::pgqueue._item order by r.ordinal),
		bool_and(coalesce(
			not r.declared and num_nonnulls(r.window_key, r.window_length, r.max_payload_bytes, r.backoff, r.max_backoff, r.timeout,
				r.lease, r.resource_keys) = 0
			and num_nonnulls(r.run_after, r.delay) < 2 and isfinite(coalesce(r.run_after, 'epoch'))
			and coalesce(r.delay, '0') >= interval '0'
			and octet_length(r.task_name) between 1 and 200 and octet_length(r.queue) between 1 and 200
			and r.priority between -100 and 100 and r.max_attempts between 1 and 10000
			and octet_length(r.payload::text) <= 1048576
			and coalesce(octet_length(r.active_key), 1) between 1 and 512
			and r.task_name || r.queue || coalesce(r.active_key, '') !~ E'[\u0001-\u001f\u007f-\u009f]', false)),
		bool_or(r.declared)
	into items, simple, declared
	from resolved r;
end
$$;
