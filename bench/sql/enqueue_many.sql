-- 1,000 unique tasks in one call, all of them new. The rate is of calls; making the JSON is part of it.
-- pgbench -n -M prepared -c 1 -T 10 -f enqueue_many.sql DATABASE
\set first random(1, 1000000000000000)
select count(*) from pgqueue.enqueue_many(items => (
	select jsonb_agg(jsonb_build_object('task_name', 'bench', 'active_key', 'bench-' || :first || '-' || n,
		'payload', jsonb_build_object('order_id', n, 'note', 'deliver to the back door, ring twice, then wait')))
	from generate_series(1, 1000) n));
