-- A unique task whose key a pending task holds, one of 1,000; those that do not exist yet are made by the first calls.
-- pgbench -n -M prepared -c 8 -j 2 -T 10 -f enqueue_unique_duplicate.sql DATABASE
\set key random(1, 1000)
select task_id from pgqueue.enqueue_unique(task_name => 'bench', active_key => 'bench-duplicate-' || :key,
	payload => '{"order_id": 1, "note": "deliver to the back door, ring twice, then wait"}');
