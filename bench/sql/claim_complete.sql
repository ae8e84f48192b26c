-- 100 tasks claimed and completed, in two transactions. The rate is of such pairs. Put tasks there before, by enqueue_many.sql.
-- pgbench -n -M prepared -c 1 -T 10 -D lease=$(psql -Atc "select pgqueue.open_lease(worker => 'pgbench', length => '1 hour')" DATABASE) -f claim_complete.sql DATABASE
select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(lease_number), '{}') as numbers
from pgqueue.claim(lease_id => :lease::uuid, max_tasks => 100) \gset
select count(*) from pgqueue.complete_many(task_ids => :ids::uuid[], lease_numbers => :numbers::integer[]);
