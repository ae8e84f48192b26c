create or replace function pgqueue._key_mismatch(p_task_name text, p_what text, p_given text, p_declared text)
returns pgqueue.receipt
language sql
stable
parallel safe
as $$
select pgqueue._refusal('PQ003',
	format('uniqueness_key_mismatch: %s of task %s is %s, its type declares %s', p_what, to_jsonb(p_task_name), to_jsonb(p_given), to_jsonb(p_declared)),
	jsonb_build_object('what', p_what, 'given', p_given, 'declared', p_declared))
$$;
