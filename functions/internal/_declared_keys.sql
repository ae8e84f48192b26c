-- The keys of one enqueue of a declared type: selected from the payload, or required of the caller.
-- Returns them with a refusal that is null when all is well. A selector runs once.
create or replace function pgqueue._declared_keys(
	p_type pgqueue.task_type, p_payload jsonb, p_active_key text, p_window_key text, p_window_ms bigint,
	out active_key text, out derive boolean, out window_key text, out window_ms bigint, out refusal pgqueue.receipt)
returns record
language plpgsql
stable
as $$
declare
	v_selected record;
begin
	active_key := p_active_key;
	derive := false;
	window_key := p_window_key;
	window_ms := p_window_ms;

	if p_type.active_required and p_type.active_selector::text = '$' then
		-- The whole payload is the key: the derived key, which the caller may also give.
		derive := true;
	elsif p_type.active_selector is not null then
		v_selected := pgqueue._select_key(p_type.name, 'active_key', p_type.active_selector, p_payload);
		refusal := v_selected.refusal;
		active_key := v_selected.key;
		if refusal.error_code is null and p_active_key <> active_key then
			refusal := pgqueue._key_mismatch(p_type.name, 'active_key', p_active_key, active_key);
		end if;
	elsif p_type.active_required and p_active_key is null then
		refusal := pgqueue._key_required(p_type.name, 'active_key');
	end if;
	if refusal.error_code is not null then
		return;
	end if;

	if p_type.window_selector is not null then
		v_selected := pgqueue._select_key(p_type.name, 'window_key', p_type.window_selector, p_payload);
		refusal := v_selected.refusal;
		window_key := v_selected.key;
		if refusal.error_code is null and p_window_key <> window_key then
			refusal := pgqueue._key_mismatch(p_type.name, 'window_key', p_window_key, window_key);
		end if;
	elsif p_type.window_required and p_window_key is null then
		refusal := pgqueue._key_required(p_type.name, 'window_key');
	end if;
	if refusal.error_code is null and p_type.window_required then
		if p_window_ms <> p_type.window_ms then
			refusal := pgqueue._key_mismatch(p_type.name, 'window_length', p_window_ms || ' ms', p_type.window_ms || ' ms');
		end if;
		window_ms := p_type.window_ms;
	end if;
end
$$;
