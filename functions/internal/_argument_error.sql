-- The first rule that the arguments of an enqueue break, as a refusal; null when they break none. Called before anything is written.
create or replace function pgqueue._argument_error(
	p_namespace text, p_task_name text, p_queue text, p_priority integer, p_run_after timestamptz, p_delay interval,
	p_max_attempts integer, p_backoff interval, p_max_backoff interval, p_timeout interval, p_lease interval,
	p_resource_keys text[], p_payload_bytes integer, p_max_payload_bytes integer)
returns pgqueue.receipt
language plpgsql
stable
parallel safe
as $$
declare
	v_code text := '22023';
	v_message text;
	v_length record;
begin
	if p_task_name is null or p_namespace is null then
		v_code := '22004';
	end if;
	v_message := coalesce(
		pgqueue._name_error('namespace', p_namespace, 48),
		pgqueue._name_error('task_name', p_task_name, 200),
		pgqueue._name_error('queue', p_queue, 200));
	if v_message is not null then
		return pgqueue._refusal(v_code, v_message);
	end if;
	if p_priority not between -100 and 100 then
		v_message := format('priority is %s, it must be from -100 to 100', p_priority);
	elsif p_run_after is not null and p_delay is not null then
		v_message := format('run_after (%s) and delay (%s) exclude each other', p_run_after, p_delay);
	elsif not isfinite(p_run_after) then
		v_message := format('run_after is %s, it must be finite', p_run_after);
	elsif p_delay < interval '0' then
		v_message := format('delay is %s, it must not be negative', p_delay);
	elsif p_max_attempts not between 1 and 10000 then
		v_message := format('max_attempts is %s, it must be from 1 to 10000', p_max_attempts);
	elsif p_payload_bytes > p_max_payload_bytes then
		v_message := format('payload has %s bytes, at most %s are allowed for task %s', p_payload_bytes, p_max_payload_bytes, to_jsonb(p_task_name));
	else
		for v_length in
			select t.name, t.value
			from (values ('backoff', p_backoff), ('max_backoff', p_max_backoff), ('timeout', p_timeout), ('lease', p_lease)) t (name, value)
			where t.value is not null
		loop
			if coalesce(pgqueue._milliseconds(v_length.value) not between 1 and 315360000000, true) then
				v_message := format('%s is %s, it must be positive, at most 3650 days, in whole milliseconds, without months and years', v_length.name, v_length.value);
				exit;
			end if;
		end loop;
		if v_message is null and p_resource_keys is not null then
			select pgqueue._name_error('resource key', k.key, 512)
			into v_message
			from unnest(p_resource_keys) k (key)
			where pgqueue._name_error('resource key', k.key, 512) is not null
			limit 1;
			if v_message is null and array_ndims(p_resource_keys) > 1 then
				v_message := 'resource_keys must have one dimension';
			end if;
		end if;
	end if;
	if v_message is null then
		return null;
	end if;
	return pgqueue._refusal(v_code, v_message);
end
$$;
