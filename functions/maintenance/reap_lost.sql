create or replace function pgqueue.reap_lost(
	max_tasks integer default null,
	namespace text default null)
returns pgqueue.reaped
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
	v_left bigint := coalesce(reap_lost.max_tasks, 1000)::bigint;
	v_now timestamptz := pgqueue._now();
	v_namespace text;
	v_lease pgqueue.lease;
	v_id uuid;
	v_part pgqueue.reaped;
	v_total pgqueue.reaped := (0::bigint, 0::bigint, 0::bigint);
begin
	if v_left < 1 then
		raise exception using errcode = '22023', message = format('max_tasks is %s, it must be positive', v_left);
	end if;
	for v_namespace in select n from pgqueue._namespaces(reap_lost.namespace) n loop
		for v_lease in
			select l.*
			from pgqueue.lease l
			where l.namespace = v_namespace and l.expires_at <= v_now
			order by l.expires_at
			for update skip locked
		loop
			begin
				v_part := pgqueue._reap_lease(v_lease, v_now, v_left);
			exception when others then
				-- One bad row must not stop the sweep: take the tasks one by one, and leave out those that fail.
				raise warning 'pgqueue.reap_lost: lease % of worker %: % (%)', v_lease.id, v_lease.worker, sqlerrm, sqlstate;
				v_part := (0::bigint, 0::bigint, 0::bigint);
				for v_id in
					select t.id from pgqueue.task t
					where t.namespace = v_namespace and t.lease_id = v_lease.id and t.status = 'RUNNING'
					order by t.id
				loop
					exit when v_part.requeued + v_part.lost + v_part.discarded >= v_left;
					declare
						v_one pgqueue.reaped;
					begin
						v_one := pgqueue._reap_lease(v_lease, v_now, 1, v_id);
						v_part.requeued := v_part.requeued + v_one.requeued;
						v_part.lost := v_part.lost + v_one.lost;
						v_part.discarded := v_part.discarded + v_one.discarded;
					exception when others then
						raise warning 'pgqueue.reap_lost: task %: % (%)', v_id, sqlerrm, sqlstate;
					end;
				end loop;
			end;
			v_total.requeued := v_total.requeued + v_part.requeued;
			v_total.lost := v_total.lost + v_part.lost;
			v_total.discarded := v_total.discarded + v_part.discarded;
			v_left := v_left - v_part.requeued - v_part.lost - v_part.discarded;
			exit when v_left <= 0;
			perform from pgqueue.task t
			where t.namespace = v_namespace and t.lease_id = v_lease.id and t.status = 'RUNNING';
			if not found then
				delete from pgqueue.lease l where l.namespace = v_namespace and l.id = v_lease.id;
			end if;
		end loop;
		exit when v_left <= 0;
	end loop;
	return v_total;
end
$$;
comment on function pgqueue.reap_lost(integer, text) is
'Takes back the tasks of workers whose lease has expired: READY again while attempts are left (the active key stays held), LOST on the last (the key is free), DISCARDED when they were asked to stop. Removes leases that have nothing running.
max_tasks: at most so many in this call; default 1000. namespace: default all. Safe from many workers and from pg_cron at once: leases and tasks that others hold are passed over. Errors: 22023 bad argument.';
