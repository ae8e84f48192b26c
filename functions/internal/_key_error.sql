-- The rule that a key breaks; null when it breaks none.
create or replace function pgqueue._key_error(p_kind text, p_key text)
returns pgqueue.receipt
language plpgsql
stable
parallel safe
as $$
declare
	v_rule text;
	v_message text;
begin
	if p_key = '' then
		v_rule := 'empty';
		v_message := format('%s is empty', p_kind);
	elsif octet_length(p_key) > 512 then
		v_rule := 'too_long';
		v_message := format('%s has %s bytes, at most 512 are allowed', p_kind, octet_length(p_key));
	elsif p_key ~ E'[\u0001-\u001f\u007f-\u009f]' then
		v_rule := 'control_character';
		v_message := format('%s has control character U+%s', p_kind,
			lpad(upper(to_hex(ascii(substring(p_key from E'[\u0001-\u001f\u007f-\u009f]')))), 4, '0'));
	else
		return null;
	end if;
	return pgqueue._refusal('PQ006', 'invalid_key: ' || v_message, jsonb_build_object('key_kind', p_kind, 'rule', v_rule));
end
$$;
