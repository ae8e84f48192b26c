create or replace function pgqueue.open_lease(
	worker text,
	length interval default null,
	namespace text default null)
returns uuid
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_namespace text := coalesce(open_lease.namespace, 'default');
	v_length interval := coalesce(open_lease.length, interval '30 seconds');
	v_now timestamptz := pgqueue._now();
	v_id uuid := pgqueue._new_id(v_now);
	v_error text := coalesce(pgqueue._name_error('namespace', v_namespace, 48), pgqueue._name_error('worker', open_lease.worker, 200));
begin
	if v_error is not null then
		raise exception using errcode = '22023', message = v_error;
	end if;
	if coalesce(pgqueue._milliseconds(v_length) not between 100 and 2592000000, true) then
		raise exception using errcode = '22023',
			message = format('length is %s, it must be from 100 milliseconds to 30 days, in whole milliseconds', v_length);
	end if;
	insert into pgqueue.lease (namespace, id, worker, length, opened_at, renewed_at, expires_at)
	values (v_namespace, v_id, open_lease.worker, v_length, v_now, v_now, v_now + v_length);
	return v_id;
end
$$;
comment on function pgqueue.open_lease(text, interval, text) is
'Opens a worker session and returns its lease id. Every task claimed under it stays with it while the lease is renewed in time.
worker: a name for people, 1 to 200 bytes. length: how long the worker may be silent, 100 ms to 30 days; default 30 seconds. Renew at a third of it. Errors: 22023 bad argument.';
