create or replace function pgqueue.enqueue_unique(
	task_name text,
	payload jsonb default null,
	queue text default null,
	priority integer default null,
	run_after timestamptz default null,
	delay interval default null,
	active_key text default null,
	window_key text default null,
	window_length interval default null,
	max_attempts integer default null,
	backoff interval default null,
	max_backoff interval default null,
	timeout interval default null,
	lease interval default null,
	resource_keys text[] default null,
	metadata jsonb default null,
	wait boolean default null,
	namespace text default null)
returns pgqueue.receipt
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_receipt pgqueue.receipt;
begin
	v_receipt := pgqueue._gate(coalesce(enqueue_unique.namespace, 'default'), enqueue_unique.task_name, coalesce(enqueue_unique.payload, 'null'),
		enqueue_unique.queue, enqueue_unique.priority, enqueue_unique.run_after, enqueue_unique.delay,
		enqueue_unique.active_key, enqueue_unique.window_key, enqueue_unique.window_length,
		enqueue_unique.max_attempts, enqueue_unique.backoff, enqueue_unique.max_backoff, enqueue_unique.timeout, enqueue_unique.lease,
		enqueue_unique.resource_keys, enqueue_unique.metadata, true, coalesce(enqueue_unique.wait, true));
	if v_receipt.error_code is not null then
		perform pgqueue._raise(v_receipt);
	end if;
	if v_receipt.disposition = 'CREATED' then
		-- Only while somebody waits: a commit that notifies takes a lock that all notifying commits of the server share.
		perform pg_notify('pgqueue:' || q.namespace, q.name)
		from pgqueue.queue q
		where q.namespace = coalesce(enqueue_unique.namespace, 'default') and q.name = v_receipt.queue and q.waiting_until > pgqueue._now();
	end if;
	return v_receipt;
end
$$;
comment on function pgqueue.enqueue_unique(text, jsonb, text, integer, timestamptz, interval, text, text, interval, integer, interval, interval, interval, interval, text[], jsonb, boolean, text) is
'Enqueues a task unless one of its key exists. With neither an active nor a window key given or declared, the active key is derived: see pgqueue.unique_key.
Returns the receipt: the new task (CREATED), or the stored row of the existing one (REUSED; the payload of this call is discarded).

task_name: required, 1 to 200 bytes. payload: any JSON value up to the type''s limit (1 MiB); default JSON null.
queue: default ''default''. priority: -100 to 100, higher first; default 0. run_after: not before this instant; delay: not before this long from now; only one of them; default at once.
active_key: 1 to 512 bytes, unique per (namespace, task name) while a task of it is READY or RUNNING.
window_key with window_length: the same request returns the same task for this long after the first acceptance, even when that task has settled or was pruned.
max_attempts: default 10. backoff: first retry delay, doubled each time up to max_backoff; defaults 5 seconds and 1 hour. timeout: of one attempt; default none. lease: how long a silent worker keeps this task at least; default the worker''s.
resource_keys, metadata: stored with the task. wait => false: do not wait for another transaction that holds the key uncommitted, answer the race at once; default true, bounded by lock_timeout.
namespace: default ''default''. A declared type (declare_task) sets its own defaults for queue, priority and policy, and its keys hold for every call.

Errors, each before anything is written: PQ001 uniqueness_conflict (the window key stands for another request; DETAIL has its task_id), PQ002 uniqueness_composition_conflict (the two keys point to two tasks; DETAIL has task_id and holder_id), PQ003 uniqueness_key_mismatch, PQ004 uniqueness_required, PQ005 key_selector_failed (declared types), PQ006 invalid_key, PQ007 invalid_window, 40001 with CONSTRAINT unique_enqueue_race (another transaction was faster: run the transaction again), 22004 and 22023 bad argument, 25006 the server is a standby.';
