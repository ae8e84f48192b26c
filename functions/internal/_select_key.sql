-- Runs a declared selector over a payload. A string is the key itself; a number or boolean is its JSON text; an object or array is
-- the SHA-256 of its canonical JSON.
create or replace function pgqueue._select_key(
	p_task_name text, p_what text, p_selector jsonpath, p_payload jsonb,
	out key text, out refusal pgqueue.receipt)
returns record
language plpgsql
stable
as $$
declare
	v_found jsonb;
	v_message text;
begin
	begin
		v_found := jsonb_path_query_array(p_payload, p_selector);
	exception when data_exception then
		-- A selector may fail on a payload of another shape (a strict path, arithmetic on text); only declared selectors
		-- pay for this subtransaction, and it writes nothing.
		v_message := sqlerrm;
	end;
	if v_message is not null then
		refusal := pgqueue._refusal('PQ005',
			format('key_selector_failed: selector %s of %s for task %s: %s', p_selector, p_what, to_jsonb(p_task_name), v_message),
			jsonb_build_object('what', p_what, 'selector', p_selector::text));
	elsif jsonb_array_length(v_found) > 1 then
		refusal := pgqueue._refusal('PQ005',
			format('key_selector_failed: selector %s of %s for task %s selects %s values, it must select one', p_selector, p_what, to_jsonb(p_task_name), jsonb_array_length(v_found)),
			jsonb_build_object('what', p_what, 'selector', p_selector::text));
	elsif coalesce(v_found -> 0, 'null') = 'null' then
		refusal := pgqueue._refusal('PQ004',
			format('uniqueness_required: selector %s of %s for task %s finds nothing in the payload', p_selector, p_what, to_jsonb(p_task_name)),
			jsonb_build_object('what', p_what, 'selector', p_selector::text));
	elsif jsonb_typeof(v_found -> 0) in ('object', 'array') then
		key := encode(pgqueue._sha256(v_found -> 0), 'hex');
	else
		key := v_found ->> 0;
	end if;
end
$$;
