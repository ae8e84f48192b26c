create or replace function pgqueue.renew_lease(
	lease_id uuid,
	namespace text default null)
returns pgqueue.lease_renewal
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(renew_lease.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_renewal pgqueue.lease_renewal;
begin
	update pgqueue.lease l
	set renewed_at = v_now, expires_at = v_now + l.length
	where l.namespace = v_namespace and l.id = renew_lease.lease_id
	returning l.expires_at into v_renewal.expires_at;
	v_renewal.renewed := found;
	v_renewal.cancelled := array(
		select t.id
		from pgqueue.task t
		where t.namespace = v_namespace and t.lease_id = renew_lease.lease_id
			and t.cancel_requested_at is not null and t.status = 'RUNNING');
	return v_renewal;
end
$$;
comment on function pgqueue.renew_lease(uuid, text) is
'Renews a lease by its length: one row, however many tasks run under it. Returns renewed = false when the lease is gone (it expired and was reaped, or was closed): the worker then stops its tasks, their outcomes would be refused. A lease that expired but was not reaped yet is renewed. cancelled lists running tasks that were asked to stop.';
