-- Whole milliseconds of an interval, or null when it has months or years, or a fraction of a millisecond.
create or replace function pgqueue._milliseconds(p_value interval)
returns bigint
language sql
immutable
parallel safe
as $$
select case
	when extract(year from p_value) = 0 and extract(month from p_value) = 0
		and extract(epoch from p_value) * 1000 = trunc(extract(epoch from p_value) * 1000)
	then (extract(epoch from p_value) * 1000)::bigint
end
$$;
