create or replace function pgqueue._unknown_task(p_namespace text, p_task_id uuid)
returns void
language plpgsql
stable
as $$
begin
	raise exception using errcode = 'PQ008',
		message = format('unknown task: there is no task %s in namespace %s', coalesce(p_task_id::text, 'null'), to_jsonb(p_namespace)),
		hint = 'It may have been pruned, or belong to another namespace.';
end
$$;
