-- The life of a task with psql alone: enqueue, again, claim, complete, enqueue again.
--
--   pgqueue migrate                         # or: pgqueue sql | psql -X -1 -v ON_ERROR_STOP=1 mydb
--   psql -X -q -f examples/psql/quickstart.sql mydb
--
-- It works in a queue of its own and leaves nothing pending, so it may run again, also on a database in use.
\set ON_ERROR_STOP on

-- A producer. The key is unique while a task of it waits or runs. \gset puts the columns into variables.
select task_id, disposition
from pgqueue.enqueue_unique('send_invoice', '{"order_id": 42}', queue => 'quickstart', active_key => 'order:42') \gset first_
\echo 'first enqueue:' :first_disposition

-- The same key again, also from another session or language: the answer is the task that is there.
select task_id, disposition, duplicate_match, status
from pgqueue.enqueue_unique('send_invoice', '{"order_id": 42}', queue => 'quickstart', active_key => 'order:42') \gset second_
select :'second_task_id' = :'first_task_id' as same_task \gset
\echo 'second enqueue:' :second_disposition :second_duplicate_match :second_status 'same task:' :same_task

-- A worker. Its lease says how long it may be silent; pgqueue.renew_lease(:'lease_id') renews it.
select pgqueue.open_lease('psql quickstart', '1 minute') as lease_id \gset

-- What is claimed is RUNNING, and nobody else gets it while the lease lives.
select id, name, payload ->> 'order_id' as order_id, attempt, lease_number
from pgqueue.claim(:'lease_id', array['quickstart']) \gset task_
\echo 'claimed:' :task_name 'of order' :task_order_id 'attempt' :task_attempt

-- Here the work is done. Then its outcome is written, with the lease_number of the claim. (On an error:
-- select * from pgqueue.fail(:'task_id', :task_lease_number, 'what went wrong');)
select pgqueue.complete(:'task_id', :task_lease_number, '{"sent": true}') as written \gset
\echo 'completed:' :written
select pgqueue.close_lease(:'lease_id') as handed_back \gset

-- The task is settled and its key is free: the same key makes a new task.
select status, result from pgqueue.get_task(:'first_task_id') \gset done_
\echo 'state now:' :done_status 'with result' :done_result
select task_id, disposition
from pgqueue.enqueue_unique('send_invoice', '{"order_id": 42}', queue => 'quickstart', active_key => 'order:42') \gset third_
select :'third_task_id' = :'first_task_id' as same_task \gset
\echo 'third enqueue:' :third_disposition 'same task:' :same_task

-- An operator closes a task that is not wanted any more.
select pgqueue.discard(:'third_task_id') \g /dev/null
select status from pgqueue.get_task(:'third_task_id') \gset third_
\echo 'in the end:' :third_status
