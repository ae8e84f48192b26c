-- Claims due tasks of one queue.
--
-- While another session holds an old snapshot, nothing removes the index entries of tasks that were claimed since, and every look from
-- the beginning of the queue would walk them all. So a session whose look was expensive remembers where its claim ended, in a
-- setting of its own, and begins there for the next second, or until it finds nothing. It is a hint and no more: what is put
-- before it meanwhile waits for the next look from the beginning, and a pooler that mixes sessions does no harm.
create or replace function pgqueue._claim_queue(p_namespace text, p_queue text, p_lease_id uuid, p_limit integer, p_now timestamptz)
returns pgqueue.claimed_task[]
language plpgsql
volatile
as $$
declare
	v_setting text := 'pgqueue.position_' || md5(p_namespace || '/' || p_queue);
	-- priority, due time in microseconds, id, time of the last look from the beginning in microseconds
	v_position text[] := string_to_array(nullif(current_setting(v_setting, true), ''), ' ');
	v_now bigint := (extract(epoch from p_now) * 1000000)::bigint;
	v_priority integer;
	v_walked bigint;
	v_tasks pgqueue.claimed_task[];
	v_last pgqueue.claimed_task;
begin
	if v_position is not null and v_now - v_position[4]::bigint between 0 and 1000000 then
		v_priority := v_position[1]::integer;
		v_tasks := pgqueue._claim_priorities(p_namespace, p_queue, 101, v_priority, p_lease_id, p_limit, p_now);
		if coalesce(cardinality(v_tasks), 0) < p_limit then
			v_tasks := v_tasks || pgqueue._claim_range(p_namespace, p_queue, v_priority,
				timestamptz 'epoch' + v_position[2]::bigint * interval '1 microsecond', v_position[3]::uuid,
				p_lease_id, p_limit - coalesce(cardinality(v_tasks), 0), p_now);
		end if;
		if coalesce(cardinality(v_tasks), 0) < p_limit then
			v_tasks := v_tasks || pgqueue._claim_priorities(p_namespace, p_queue, v_priority, -101,
				p_lease_id, p_limit - coalesce(cardinality(v_tasks), 0), p_now);
		end if;
	end if;
	if v_tasks is null then
		v_walked := pg_stat_get_xact_tuples_returned('pgqueue.task_claim_idx'::regclass);
		v_tasks := pgqueue._claim_priorities(p_namespace, p_queue, 101, -101, p_lease_id, p_limit, p_now);
		-- The statistics of this session count every index entry that it has walked over, of rows that are gone too.
		if pg_stat_get_xact_tuples_returned('pgqueue.task_claim_idx'::regclass) - v_walked <= 500 + 2 * coalesce(cardinality(v_tasks), 0) then
			if v_position is not null then
				perform set_config(v_setting, '', false);
			end if;
			return v_tasks;
		end if;
		v_position[4] := v_now::text;
	end if;
	if v_tasks is null then
		perform set_config(v_setting, '', false);
	else
		v_last := v_tasks[cardinality(v_tasks)];
		perform set_config(v_setting, concat_ws(' ', v_last.priority, (extract(epoch from v_last.run_after) * 1000000)::bigint, v_last.id,
			v_position[4]), false);
	end if;
	return v_tasks;
end
$$;
