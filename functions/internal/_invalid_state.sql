create or replace function pgqueue._invalid_state(p_what text, p_task_id uuid, p_status pgqueue.task_status, p_allowed text)
returns void
language plpgsql
stable
as $$
begin
	raise exception using errcode = 'PQ009',
		message = format('invalid state: cannot %s task %s, it is %s; it must be %s', p_what, p_task_id, coalesce(p_status::text, 'gone'), p_allowed),
		detail = jsonb_build_object('task_id', p_task_id, 'status', p_status)::text;
end
$$;
