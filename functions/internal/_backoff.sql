-- Delay before the next attempt: base * 2^(attempt - 1) up to the maximum, plus or minus 10 % so that tasks which failed together
-- do not come back together.
create or replace function pgqueue._backoff(p_policy jsonb, p_attempt integer)
returns interval
language sql
volatile
parallel safe
as $$
select least(
		coalesce((p_policy ->> 'backoff')::double precision, 5000) * 2 ^ least(p_attempt - 1, 40),
		coalesce((p_policy ->> 'max_backoff')::double precision, 3600000))
	* (0.9 + 0.2 * random()) * interval '1 millisecond'
$$;
