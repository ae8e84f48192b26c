-- What makes two requests with one window key the same request. The start counts as it was asked for: an instant as an instant,
-- a delay as a delay. Policy is left out: a difference there is drift, not conflict. So are the members of metadata that carry a trace
-- context: a repeated request is another span.
create or replace function pgqueue._fingerprint(
	p_task_name text, p_payload jsonb, p_queue text, p_priority integer, p_run_after timestamptz, p_delay interval,
	p_active_key text, p_window_key text, p_resource_keys text[], p_metadata jsonb)
returns bytea
language sql
stable
parallel safe
as $$
select pgqueue._sha256(jsonb_build_array(
	1, 'request', p_task_name, p_queue, p_priority,
	extract(epoch from p_run_after),
	case when p_delay is not null then jsonb_build_array(
		extract(year from p_delay) * 12 + extract(month from p_delay),
		extract(day from p_delay),
		extract(hour from p_delay) * 3600 + extract(minute from p_delay) * 60 + extract(second from p_delay))
	end,
	p_active_key, p_window_key, to_jsonb(p_resource_keys), p_payload,
	case when jsonb_typeof(p_metadata) = 'object' then nullif(p_metadata - array['traceparent', 'tracestate'], '{}') else p_metadata end))
$$;
