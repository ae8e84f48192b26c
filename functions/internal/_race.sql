-- The race refusal; cause is one of key_taken, holder_changed, window_changed, lock_timeout, busy. p_fresh_read_key: the active key
-- with which a fresh look may still find the holder pending; not given beside a window key, which would then stay unlinked.
create or replace function pgqueue._race(p_cause text, p_task_name text, p_active_key text, p_error text default null, p_holder_id uuid default null,
	p_fresh_read_key text default null)
returns pgqueue.receipt
language sql
stable
parallel safe
as $$
select pgqueue._refusal('40001',
	'unique_enqueue_race: ' || case p_cause
		when 'key_taken' then 'the key was taken by another transaction after this transaction''s snapshot'
		when 'holder_changed' then 'the task that holds the key was changed by another transaction after this transaction''s snapshot'
		when 'window_changed' then 'the window key was written by another transaction after this transaction''s snapshot'
		when 'lock_timeout' then 'another transaction holds the key uncommitted, and the wait for it was ended'
		when 'busy' then 'another transaction holds the key uncommitted, and the caller asked not to wait'
	end || coalesce(': ' || p_error, ''),
	jsonb_strip_nulls(jsonb_build_object(
		'cause', p_cause, 'task_name', p_task_name, 'active_key', p_active_key, 'holder_id', p_holder_id, 'error', p_error,
		'fresh_read_key', p_fresh_read_key)))
$$;
