create or replace function pgqueue.declare_task(
	task_name text,
	queue text default null,
	priority integer default null,
	max_attempts integer default null,
	backoff interval default null,
	max_backoff interval default null,
	timeout interval default null,
	lease interval default null,
	active_key_required boolean default null,
	active_key_selector text default null,
	window_key_required boolean default null,
	window_key_selector text default null,
	window_length interval default null,
	max_payload_bytes integer default null,
	namespace text default null)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(declare_task.namespace, 'default');
	v_window_required boolean := coalesce(declare_task.window_key_required, false) or declare_task.window_key_selector is not null;
	v_active_selector jsonpath := pgqueue._selector('active_key_selector', declare_task.active_key_selector);
	v_window_selector jsonpath := pgqueue._selector('window_key_selector', declare_task.window_key_selector);
	v_window_ms bigint := pgqueue._milliseconds(declare_task.window_length);
	v_refusal pgqueue.receipt;
begin
	v_refusal := pgqueue._argument_error(v_namespace, declare_task.task_name, coalesce(declare_task.queue, 'default'),
		declare_task.priority, null, null, declare_task.max_attempts, declare_task.backoff, declare_task.max_backoff,
		declare_task.timeout, declare_task.lease, null, 0, 0);
	if v_refusal.error_code is not null then
		perform pgqueue._raise(v_refusal);
	end if;
	if declare_task.max_payload_bytes not between 1 and 268435455 then
		raise exception using errcode = '22023',
			message = format('max_payload_bytes is %s, it must be from 1 to 268435455', declare_task.max_payload_bytes);
	end if;
	if v_window_required <> (declare_task.window_length is not null)
		or coalesce(v_window_ms not between 1 and 315360000000, declare_task.window_length is not null) then
		perform pgqueue._raise(pgqueue._refusal('PQ007',
			format('invalid_window: window_length is %s; a declared window key needs one, and it must be positive, at most 3650 days, in whole milliseconds, without months and years',
				coalesce(declare_task.window_length::text, 'null'))));
	end if;
	insert into pgqueue.task_type (namespace, name, queue, priority, max_attempts, policy, max_payload_bytes,
		active_required, active_selector, window_required, window_selector, window_ms, declared_at)
	values (v_namespace, declare_task.task_name, declare_task.queue, declare_task.priority, declare_task.max_attempts,
		pgqueue._policy(null, declare_task.backoff, declare_task.max_backoff, declare_task.timeout, declare_task.lease),
		declare_task.max_payload_bytes,
		coalesce(declare_task.active_key_required, false) or v_active_selector is not null, v_active_selector,
		v_window_required, v_window_selector, v_window_ms, pgqueue._now())
	on conflict on constraint task_type_pkey do update
	set queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts, policy = excluded.policy,
		max_payload_bytes = excluded.max_payload_bytes,
		active_required = excluded.active_required, active_selector = excluded.active_selector,
		window_required = excluded.window_required, window_selector = excluded.window_selector,
		window_ms = excluded.window_ms, declared_at = excluded.declared_at;
end
$$;
comment on function pgqueue.declare_task(text, text, integer, integer, interval, interval, interval, interval, boolean, text, boolean, text, interval, integer, text) is
'Declares a task type, or replaces its declaration. From then on every enqueue of the type, from any language and through any function, uses these defaults and must carry these keys. Tasks already enqueued are not touched.
queue, priority, max_attempts, backoff, max_backoff, timeout, lease: defaults of the type, as in enqueue.
active_key_required: the caller must give active_key (PQ004 otherwise). active_key_selector: an SQL/JSON path over the payload that gives the key; ''$'' makes the whole payload the key, as unique_key does. A string is the key itself, a number or boolean its JSON text, an object or array the SHA-256 of its canonical JSON. Nothing or null: PQ004; an error, or more than one value: PQ005.
window_key_required, window_key_selector: the same for the window key, with window_length. max_payload_bytes: size of the payload''s JSON text; default 1 MiB. namespace: default ''default''.
Errors: 22023 and 22004 bad argument or selector, PQ007 bad window.';
