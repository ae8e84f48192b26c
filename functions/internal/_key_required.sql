create or replace function pgqueue._key_required(p_task_name text, p_what text)
returns pgqueue.receipt
language sql
stable
parallel safe
as $$
select pgqueue._refusal('PQ004',
	format('uniqueness_required: task %s must carry %s', to_jsonb(p_task_name), p_what),
	jsonb_build_object('what', p_what))
$$;
