-- Parses a selector, with an error that says which one.
create or replace function pgqueue._selector(p_what text, p_selector text)
returns jsonpath
language plpgsql
stable
as $$
begin
	return p_selector::jsonpath;
exception when syntax_error or data_exception then
	raise exception using errcode = '22023', message = format('%s %s is no SQL/JSON path: %s', p_what, to_jsonb(p_selector), sqlerrm);
end
$$;
