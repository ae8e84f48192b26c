-- A unique task whose key is new.
-- pgbench -n -M prepared -c 8 -j 2 -T 10 -f enqueue_unique_new.sql DATABASE
\set key random(1, 1000000000000000)
select task_id from pgqueue.enqueue_unique(task_name => 'bench', active_key => 'bench-' || :key,
	payload => '{"order_id": 1, "note": "deliver to the back door, ring twice, then wait"}');
