create or replace function pgqueue.claim(
	lease_id uuid,
	queues text[] default null,
	max_tasks integer default null,
	wait_for interval default null,
	namespace text default null)
returns setof pgqueue.claimed_task
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
	v_namespace text := coalesce(claim.namespace, 'default');
	v_queues text[] := coalesce(claim.queues, array['default']);
	v_left integer := coalesce(claim.max_tasks, 1);
	v_now timestamptz := pgqueue._now();
	v_queue text;
	v_tasks pgqueue.claimed_task[];
	v_any boolean := false;
begin
	if v_left not between 1 and 10000 then
		raise exception using errcode = '22023', message = format('max_tasks is %s, it must be from 1 to 10000', v_left);
	end if;
	-- The row lock keeps the reaper from removing the lease before this claim is committed; it does not hold off a renewal.
	perform from pgqueue.lease l
	where l.namespace = v_namespace and l.id = claim.lease_id and l.expires_at > v_now
	for key share;
	if not found then
		raise exception using errcode = 'PQ009', message = format('lease %s is unknown or has expired', claim.lease_id),
			hint = 'Open a new one with pgqueue.open_lease().';
	end if;

	foreach v_queue in array v_queues loop
		exit when v_left = 0;
		perform from pgqueue.queue q where q.namespace = v_namespace and q.name = v_queue and q.paused_at is not null;
		continue when found;
		v_tasks := pgqueue._claim_queue(v_namespace, v_queue, claim.lease_id, v_left, v_now);
		continue when v_tasks is null;
		v_left := v_left - cardinality(v_tasks);
		v_any := true;
		return query select t.* from unnest(v_tasks) t;
	end loop;
	if not v_any and claim.wait_for is not null then
		perform pgqueue._announce(v_namespace, v_queues, claim.wait_for);
	end if;
end
$$;
comment on function pgqueue.claim(uuid, text[], integer, interval, text) is
'Takes due READY tasks under a lease and returns them RUNNING: queues in the order given, in each the higher priority first, then the earlier due time (while another session holds an old snapshot, a task that comes in before others that were claimed may follow up to a second later). Waits for no lock: rows that others hold are passed over, so two claimers never get one task.
lease_id: from open_lease. queues: default {default}; paused ones give nothing. max_tasks: 1 to 10000, default 1. wait_for: when nothing was found, say that a worker will wait this long for these queues, so that enqueues notify channel ''pgqueue:<namespace>'' with the queue''s name; then claim once more before waiting. namespace: default ''default''.
Run it at READ COMMITTED; at stricter levels a busy queue gives 40001. Errors: PQ009 the lease has expired or is unknown, 22023 bad argument.';
