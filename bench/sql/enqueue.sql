-- A task without a key.
-- pgbench -n -M prepared -c 8 -j 2 -T 10 -f enqueue.sql DATABASE
select task_id from pgqueue.enqueue(task_name => 'bench', payload => '{"order_id": 1, "note": "deliver to the back door, ring twice, then wait"}');
