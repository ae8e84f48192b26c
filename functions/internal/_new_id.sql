-- UUID version 7 for the given time: 48 bits of milliseconds over a random UUID.
-- Unpinned and touching no objects, so that it is inlined into its callers.
create or replace function pgqueue._new_id(p_time timestamptz)
returns uuid
language sql
volatile
parallel safe
as $$
select encode(
	set_bit(set_bit(
		overlay(uuid_send(gen_random_uuid())
			placing substring(int8send((extract(epoch from p_time) * 1000)::bigint) from 3)
			from 1 for 6),
		52, 1), 53, 1),
	'hex')::uuid
$$;
