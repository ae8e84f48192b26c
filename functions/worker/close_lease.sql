create or replace function pgqueue.close_lease(
	lease_id uuid,
	keep uuid[] default null,
	namespace text default null)
returns bigint
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
	v_namespace text := coalesce(close_lease.namespace, 'default');
	v_now timestamptz := pgqueue._now();
	v_handed_back bigint;
begin
	perform from pgqueue.lease l
	where l.namespace = v_namespace and l.id = close_lease.lease_id
	for update;
	if not found then
		return 0::bigint;
	end if;
	update pgqueue.task t
	set status = case when t.cancel_requested_at is null then 'READY' else 'DISCARDED' end::pgqueue.task_status,
		claimable = t.cancel_requested_at is null,
		finished_at = case when t.cancel_requested_at is null then null else v_now end,
		attempt = t.attempt - 1, lease_id = null, lease_number = t.lease_number + 1, cancel_requested_at = null
	where t.namespace = v_namespace and t.lease_id = close_lease.lease_id and t.status = 'RUNNING'
		and (close_lease.keep is null or t.id <> all (close_lease.keep));
	get diagnostics v_handed_back = row_count;
	delete from pgqueue.lease l
	where l.namespace = v_namespace and l.id = close_lease.lease_id
		and not exists (
			select from pgqueue.task t
			where t.namespace = v_namespace and t.lease_id = close_lease.lease_id and t.status = 'RUNNING');
	return v_handed_back;
end
$$;
comment on function pgqueue.close_lease(uuid, uuid[], text) is
'Ends a worker session and hands its unfinished tasks back: READY at once, the broken-off attempt not counted (DISCARDED when they were asked to stop). Returns how many; 0 for a lease that is gone.
keep: ids of tasks that the worker is still at; the lease stays for them, and must be renewed and closed again. So a worker that lost the answer to a claim gives back what it does not know of. Default none.';
