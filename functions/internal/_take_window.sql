-- Writes a window row where none is open. False: another transaction has written one meanwhile, read again.
-- The window starts at the first acceptance and does not slide.
create or replace function pgqueue._take_window(
	p_namespace text, p_key bytea, p_task_id uuid, p_fingerprint bytea, p_policy_hash bytea,
	p_task_name text, p_window_key text, p_now timestamptz, p_window_ms bigint, p_expired_accepted_at timestamptz)
returns boolean
language plpgsql
volatile
as $$
begin
	if p_expired_accepted_at is null then
		insert into pgqueue.unique_window (namespace, key, task_id, fingerprint, policy_hash, task_name, window_key, accepted_at, expires_at)
		values (p_namespace, p_key, p_task_id, p_fingerprint, p_policy_hash, p_task_name, p_window_key,
			p_now, p_now + p_window_ms * interval '1 millisecond')
		on conflict do nothing;
	else
		update pgqueue.unique_window w
		set task_id = p_task_id, fingerprint = p_fingerprint, policy_hash = p_policy_hash,
			accepted_at = p_now, expires_at = p_now + p_window_ms * interval '1 millisecond'
		where w.namespace = p_namespace and w.key = p_key and w.accepted_at = p_expired_accepted_at;
	end if;
	return found;
end
$$;
