-- Key of the unique_window row for a window key; null for none.
create or replace function pgqueue._window_key(p_task_name text, p_window_key text)
returns bytea
language sql
stable
parallel safe
as $$
select case when p_window_key is not null then sha256(convert_to(jsonb_build_array(1, 'window', p_task_name, p_window_key)::text, 'UTF8')) end
$$;
