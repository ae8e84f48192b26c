create or replace function pgqueue.fingerprint(
	task_name text,
	payload jsonb default null,
	queue text default null,
	priority integer default null,
	run_after timestamptz default null,
	delay interval default null,
	active_key text default null,
	window_key text default null,
	resource_keys text[] default null,
	metadata jsonb default null)
returns bytea
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	return pgqueue._fingerprint(fingerprint.task_name, coalesce(fingerprint.payload, 'null'),
		coalesce(fingerprint.queue, 'default'), coalesce(fingerprint.priority, 0), fingerprint.run_after, fingerprint.delay,
		fingerprint.active_key, fingerprint.window_key, fingerprint.resource_keys, fingerprint.metadata);
end
$$;
comment on function pgqueue.fingerprint(text, jsonb, text, integer, timestamptz, interval, text, text, text[], jsonb) is
'What a window key compares: SHA-256 of the canonical JSON of task name, queue, priority, start as asked for, active key, window key, resource keys, payload and metadata. Two enqueues with one window key and different fingerprints are in conflict (PQ001).
Defaults: queue ''default'', priority 0; the defaults of a declared type are not looked up. Policy (max_attempts, backoff, timeout, lease) and the window''s length are not part of it, nor are the members traceparent and tracestate of metadata; empty metadata is none.';
