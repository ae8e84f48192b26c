-- The active key of a unique enqueue that names none.
create or replace function pgqueue._derived_key(p_namespace text, p_task_name text, p_queue text, p_payload jsonb)
returns text
language sql
stable
parallel safe
as $$ select encode(sha256(convert_to(jsonb_build_array(p_namespace, p_task_name, p_queue, p_payload)::text, 'UTF8')), 'hex') $$;
