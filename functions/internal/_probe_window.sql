-- Has a window row changed since this transaction's snapshot? See _probe_task.
create or replace function pgqueue._probe_window(p_namespace text, p_key bytea)
returns boolean
language plpgsql
volatile
as $$
begin
	perform from pgqueue.unique_window w where w.namespace = p_namespace and w.key = p_key for share nowait;
	raise exception using errcode = 'PQP00', message = 'probe done';
exception
	when sqlstate 'PQP00' or lock_not_available then
		return false;
	when serialization_failure then
		return true;
end
$$;
