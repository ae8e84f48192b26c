-- What is wrong with a namespace, task name, queue or worker name; null when nothing is.
create or replace function pgqueue._name_error(p_what text, p_value text, p_max_bytes integer)
returns text
language sql
stable
parallel safe
as $$
select case
	when p_value is null then format('%s is required', p_what)
	when p_value = '' then format('%s is empty', p_what)
	when octet_length(p_value) > p_max_bytes then
		format('%s has %s bytes, at most %s are allowed', p_what, octet_length(p_value), p_max_bytes)
	when p_value ~ E'[\u0001-\u001f\u007f-\u009f]' then format('%s %s has a control character', p_what, to_jsonb(p_value))
end
$$;
