-- The stored policy: what the call gives over what the type declares, in milliseconds, without what is the default anyway; null when
-- all is. So two ways to ask for one policy are one policy.
create or replace function pgqueue._policy(
	p_declared jsonb, p_backoff interval, p_max_backoff interval, p_timeout interval, p_lease interval)
returns jsonb
language plpgsql
stable
parallel safe
as $$
declare
	v_policy jsonb := coalesce(p_declared, '{}') || jsonb_strip_nulls(jsonb_build_object(
		'backoff', pgqueue._milliseconds(p_backoff), 'max_backoff', pgqueue._milliseconds(p_max_backoff),
		'timeout', pgqueue._milliseconds(p_timeout), 'lease', pgqueue._milliseconds(p_lease)));
begin
	if v_policy -> 'backoff' = '5000' then
		v_policy := v_policy - 'backoff';
	end if;
	if v_policy -> 'max_backoff' = '3600000' then
		v_policy := v_policy - 'max_backoff';
	end if;
	return nullif(v_policy, '{}');
end
$$;
