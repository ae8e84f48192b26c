-- The exact path of enqueue_many: every item through the gate, in input order.
create or replace function pgqueue._batch_sequence(p_namespace text, p_items pgqueue._item[], p_wait boolean, p_continue boolean)
returns setof pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v_item pgqueue._item;
	v_receipt pgqueue.receipt;
begin
	foreach v_item in array p_items loop
		v_receipt := pgqueue._gate(p_namespace, v_item.task_name, v_item.payload, v_item.queue, v_item.priority, v_item.run_after, v_item.delay,
			v_item.active_key, v_item.window_key, v_item.window_length, v_item.max_attempts, v_item.backoff, v_item.max_backoff,
			v_item.timeout, v_item.lease, v_item.resource_keys, v_item.metadata, v_item.is_unique, p_wait);
		v_receipt.ordinal := v_item.ordinal;
		if v_receipt.error_code is not null and not p_continue then
			v_receipt.error_message := format('item %s: %s', v_item.ordinal, v_receipt.error_message);
			v_receipt.error_detail := coalesce(v_receipt.error_detail, '{}') || jsonb_build_object('ordinal', v_item.ordinal);
			perform pgqueue._raise(v_receipt);
		end if;
		return next v_receipt;
	end loop;
end
$$;
