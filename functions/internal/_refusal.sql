-- A receipt that carries an error instead of a task.
create or replace function pgqueue._refusal(
	p_code text, p_message text, p_detail jsonb default null,
	p_conflicting_task_id uuid default null, p_conflicting_holder_id uuid default null)
returns pgqueue.receipt
language plpgsql
immutable
parallel safe
as $$
declare
	v_receipt pgqueue.receipt;
begin
	v_receipt.ordinal := 1;
	v_receipt.error_code := p_code;
	v_receipt.error_message := p_message;
	v_receipt.error_detail := p_detail;
	v_receipt.conflicting_task_id := p_conflicting_task_id;
	v_receipt.conflicting_holder_id := p_conflicting_holder_id;
	return v_receipt;
end
$$;
