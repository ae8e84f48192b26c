-- Says that a worker waits for these queues, see _wake. Rewrites a queue's row only when half of what it says has passed, and
-- passes over a row that another worker is writing: that one says the same.
create or replace function pgqueue._announce(p_namespace text, p_queues text[], p_wait_for interval)
returns void
language plpgsql
volatile
as $$
declare
	v_now timestamptz := pgqueue._now();
	v_queue text;
begin
	foreach v_queue in array p_queues loop
		perform from pgqueue.queue q
		where q.namespace = p_namespace and q.name = v_queue and q.waiting_until > v_now + p_wait_for / 2;
		continue when found;
		insert into pgqueue.queue (namespace, name) values (p_namespace, v_queue) on conflict do nothing;
		with free as materialized (
			select q.name
			from pgqueue.queue q
			where q.namespace = p_namespace and q.name = v_queue
			for no key update skip locked
		)
		update pgqueue.queue q
		set waiting_until = greatest(q.waiting_until, v_now + p_wait_for)
		from free f
		where q.namespace = p_namespace and q.name = f.name;
	end loop;
end
$$;
