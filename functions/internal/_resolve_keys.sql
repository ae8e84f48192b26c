-- The keys of one enqueue: declared, given or derived, and checked. Returns them with a refusal that is null when all is well.
create or replace function pgqueue._resolve_keys(
	p_namespace text, p_task_name text, p_payload jsonb, p_queue text,
	p_active_key text, p_window_key text, p_window_length interval, p_unique boolean, p_declared boolean,
	out active_key text, out derived boolean, out window_key text, out window_ms bigint, out refusal pgqueue.receipt)
returns record
language plpgsql
stable
as $$
declare
	v_declared record;
	v_type pgqueue.task_type;
begin
	active_key := p_active_key;
	derived := p_unique and p_active_key is null and p_window_key is null;
	window_key := p_window_key;
	window_ms := pgqueue._milliseconds(p_window_length);
	if p_window_length is not null and coalesce(window_ms not between 1 and 315360000000, true) then
		refusal := pgqueue._refusal('PQ007', format(
			'invalid_window: window_length is %s, it must be positive, at most 3650 days, in whole milliseconds, without months and years', p_window_length));
		return;
	end if;
	if p_declared then
		select y.* into v_type from pgqueue.task_type y where y.namespace = p_namespace and y.name = p_task_name;
		v_declared := pgqueue._declared_keys(v_type, p_payload, p_active_key, p_window_key, window_ms);
		refusal := v_declared.refusal;
		active_key := v_declared.active_key;
		window_key := v_declared.window_key;
		window_ms := v_declared.window_ms;
		derived := v_declared.derive or (p_unique and active_key is null and window_key is null);
	end if;
	if refusal.error_code is null and derived then
		if active_key <> pgqueue._derived_key(p_namespace, p_task_name, p_queue, p_payload) then
			refusal := pgqueue._key_mismatch(p_task_name, 'active_key', active_key,
				pgqueue._derived_key(p_namespace, p_task_name, p_queue, p_payload));
		end if;
		active_key := pgqueue._derived_key(p_namespace, p_task_name, p_queue, p_payload);
	end if;
	if refusal.error_code is not null then
		return;
	elsif active_key is not null then
		refusal := pgqueue._key_error('active_key', active_key);
	end if;
	if refusal.error_code is null and window_key is not null then
		refusal := pgqueue._key_error('window_key', window_key);
	end if;
	if refusal.error_code is null and (window_key is null) <> (window_ms is null) then
		refusal := pgqueue._refusal('PQ007', case when window_key is null
			then 'invalid_window: window_length is given without window_key'
			else 'invalid_window: window_key is given without window_length' end);
	end if;
end
$$;
