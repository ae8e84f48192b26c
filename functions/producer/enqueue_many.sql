create or replace function pgqueue.enqueue_many(
	items jsonb,
	continue_on_conflict boolean default null,
	wait boolean default null,
	namespace text default null)
returns setof pgqueue.receipt
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(enqueue_many.namespace, 'default');
	v_wait boolean := coalesce(enqueue_many.wait, true);
	v_now timestamptz := pgqueue._now();
	v_batch record;
	v_set boolean;
	v_error text := pgqueue._name_error('namespace', v_namespace, 48);
	v_refusal pgqueue.receipt;
	v_receipts pgqueue.receipt[];
begin
	if v_error is not null then
		raise exception using errcode = '22023', message = v_error;
	elsif jsonb_typeof(enqueue_many.items) is distinct from 'array' then
		raise exception using errcode = '22023',
			message = format('items must be a JSON array of objects, it is %s', coalesce(jsonb_typeof(enqueue_many.items), 'NULL'));
	elsif enqueue_many.items = '[]' then
		return;
	end if;
	v_batch := pgqueue._batch_items(v_namespace, enqueue_many.items, v_now);
	v_set := v_batch.simple and v_wait and current_setting('lock_timeout') = '0' and not pg_is_in_recovery()
		and current_setting('transaction_isolation') in ('read committed', 'read uncommitted');

	if v_set then
		perform pgqueue._batch_locks(v_batch.items, v_batch.declared, true);
	elsif v_wait then
		begin
			perform pgqueue._batch_locks(v_batch.items, v_batch.declared, false);
		exception when lock_not_available then
			v_refusal := pgqueue._race('lock_timeout', null, null, sqlerrm);
		end;
		-- A batch that does not wait is no part of a circle.
	end if;
	if v_refusal.error_code is not null and not coalesce(enqueue_many.continue_on_conflict, false) then
		perform pgqueue._raise(v_refusal);
	elsif v_refusal.error_code is not null then
		for v_ordinal in 1 .. cardinality(v_batch.items) loop
			v_refusal.ordinal := v_ordinal;
			return next v_refusal;
		end loop;
		return;
	end if;
	if v_set then
		v_receipts := array(select r from pgqueue._batch_set(v_namespace, v_batch.items, v_now) r);
	else
		v_receipts := array(select r
			from pgqueue._batch_sequence(v_namespace, v_batch.items, v_wait, coalesce(enqueue_many.continue_on_conflict, false)) r);
	end if;
	perform pg_notify('pgqueue:' || v_namespace, q.name)
	from (select distinct r.queue from unnest(v_receipts) r where r.disposition = 'CREATED') c
	join pgqueue.queue q on q.namespace = v_namespace and q.name = c.queue
	where q.waiting_until > pgqueue._now();
	return query select r.* from unnest(v_receipts) r;
end
$$;
comment on function pgqueue.enqueue_many(jsonb, boolean, boolean, text) is
'Enqueues many tasks in one call, as if they were enqueued one after another in input order. Returns one receipt for each item in that order; an item whose key an earlier one took is REUSED with that one''s task.

items: a JSON array of objects with the members task_name, payload, queue, priority, run_after, delay, active_key, window_key, window_length, max_attempts, backoff, max_backoff, timeout, lease, resource_keys, metadata as in pgqueue.enqueue (times and intervals as text), and unique: true to derive the active key when neither key is given.
continue_on_conflict: default false, the first refused item fails the whole call and nothing is written; DETAIL has its ordinal. true: a refused item carries its error in its receipt and the rest go on.
wait => false: see pgqueue.enqueue. namespace: default ''default''.

Errors: those of pgqueue.enqueue; 22023 when items is not an array of objects with known members. Two batches never deadlock each other, but two transactions of several calls that take the same keys in different order may (40P01: run the transaction again).';
