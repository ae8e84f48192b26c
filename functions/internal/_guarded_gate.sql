-- The gate for REPEATABLE READ and SERIALIZABLE, and for waits that may end: what another transaction does to the keys after this
-- one's snapshot surfaces as an error inside the subtransaction and leaves it as the race refusal, with nothing written.
create or replace function pgqueue._guarded_gate(
	p_namespace text, p_task_name text, p_payload jsonb, p_queue text, p_priority integer,
	p_run_after timestamptz, p_delay interval,
	p_active_key text, p_window_key text, p_window_length interval,
	p_max_attempts integer, p_backoff interval, p_max_backoff interval, p_timeout interval, p_lease interval,
	p_resource_keys text[], p_metadata jsonb, p_unique boolean, p_wait boolean)
returns pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v_snapshot boolean := current_setting('transaction_isolation') in ('repeatable read', 'serializable');
	v_lock_timeout text := current_setting('lock_timeout');
	v_receipt pgqueue.receipt;
	v_fresh pgqueue.receipt;
	v_context text;
begin
	if pg_is_in_recovery() then
		-- A duplicate is answered from reads alone, and on a standby those may be stale.
		raise exception using errcode = '25006', message = 'pgqueue: this server is in recovery; tasks are enqueued on the primary';
	end if;
	if not p_wait then
		-- The shortest wait that there is.
		perform set_config('lock_timeout', '1ms', true);
	end if;
	v_receipt := pgqueue._gate(p_namespace, p_task_name, p_payload, p_queue, p_priority, p_run_after, p_delay,
		p_active_key, p_window_key, p_window_length, p_max_attempts, p_backoff, p_max_backoff, p_timeout, p_lease,
		p_resource_keys, p_metadata, p_unique, p_wait, true, v_snapshot);
	if not p_wait then
		perform set_config('lock_timeout', v_lock_timeout, true);
	end if;
	if v_receipt.error_detail ->> 'fresh_read_key' is not null then
		v_fresh := pgqueue._fresh_read(p_namespace, p_task_name, v_receipt.error_detail ->> 'fresh_read_key');
		if v_fresh.task_id = (v_receipt.error_detail ->> 'holder_id')::uuid then
			return v_fresh;
		end if;
	end if;
	return v_receipt;
exception
	when lock_not_available then
		return pgqueue._race(case when p_wait then 'lock_timeout' else 'busy' end, p_task_name, p_active_key, sqlerrm);
	when serialization_failure or unique_violation then
		get stacked diagnostics v_context = pg_exception_context;
		return pgqueue._race(
			case
				when v_context like '%._take_window(%' then 'window_changed'
				when v_context like '%._take_over(%' then 'holder_changed'
				else 'key_taken'
			end, p_task_name, p_active_key, sqlerrm);
end
$$;
