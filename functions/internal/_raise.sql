-- Turns a refusal into the error that it describes. DETAIL is the JSON of error_detail, for programs.
create or replace function pgqueue._raise(p_receipt pgqueue.receipt)
returns void
language plpgsql
immutable
as $$
declare
	v_hint text := case p_receipt.error_code
		when 'PQ001' then 'A window key stands for one request: use another key for another request, or wait until the window ends. pgqueue.forget_window() frees it early.'
		when 'PQ002' then 'The window key and the active key belong to two different tasks: wait until the holder is settled, or use one of the keys alone.'
		when 'PQ003' then 'The key is declared for this task type: leave the argument out, or give the declared value.'
		when 'PQ004' then 'This task type is declared unique: the payload or the call must carry its key.'
		when 'PQ005' then 'The selectors of a type are in pgqueue.task_type; pgqueue.declare_task() changes them.'
		when 'PQ006' then 'A key is 1 to 512 bytes of UTF-8 without control characters, compared byte for byte.'
		when 'PQ007' then 'A window comes with its key; it is positive, at most 3650 days, in whole milliseconds, without months and years.'
		when '40001' then 'Roll back and run the transaction again.'
		else 'Nothing was written.'
	end;
begin
	if p_receipt.error_code = '40001' then
		raise exception using errcode = '40001', message = p_receipt.error_message, hint = v_hint,
			detail = p_receipt.error_detail::text, schema = 'pgqueue', constraint = 'unique_enqueue_race';
	elsif p_receipt.error_detail is not null then
		raise exception using errcode = p_receipt.error_code, message = p_receipt.error_message, hint = v_hint,
			detail = p_receipt.error_detail::text;
	end if;
	raise exception using errcode = p_receipt.error_code, message = p_receipt.error_message, hint = v_hint;
end
$$;
