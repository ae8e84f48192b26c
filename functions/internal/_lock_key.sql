-- Key of the unique_lock row for an active key; null for none. The leading version and kind keep the key spaces apart.
create or replace function pgqueue._lock_key(p_task_name text, p_active_key text)
returns bytea
language sql
stable
parallel safe
as $$
select case when p_active_key is not null then sha256(convert_to(jsonb_build_array(1, 'active', p_task_name, p_active_key)::text, 'UTF8')) end
$$;
