-- The stored policy: what the call gives over what the type declares, in milliseconds; null when all is default.
create or replace function pgqueue._policy(
	p_declared jsonb, p_backoff interval, p_max_backoff interval, p_timeout interval, p_lease interval)
returns jsonb
language sql
stable
parallel safe
as $$
select case
	when p_backoff is null and p_max_backoff is null and p_timeout is null and p_lease is null then p_declared
	else coalesce(p_declared, '{}') || jsonb_strip_nulls(jsonb_build_object(
		'backoff', pgqueue._milliseconds(p_backoff),
		'max_backoff', pgqueue._milliseconds(p_max_backoff),
		'timeout', pgqueue._milliseconds(p_timeout),
		'lease', pgqueue._milliseconds(p_lease)))
end
$$;
