-- The one clock of the queue. Tests replace it in their own database; nothing else may read a clock.
create or replace function pgqueue._now()
returns timestamptz
language sql
volatile
parallel safe
as $$ select clock_timestamp() $$;
