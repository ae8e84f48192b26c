-- Has a pending holder changed since this transaction's snapshot? For REPEATABLE READ and SERIALIZABLE.
-- The row lock that answers it is taken in a subtransaction that is rolled back at once, so nothing of it stays.
create or replace function pgqueue._probe_task(p_namespace text, p_id uuid)
returns boolean
language plpgsql
volatile
as $$
begin
	perform from pgqueue.task t where t.namespace = p_namespace and t.id = p_id for share nowait;
	raise exception using errcode = 'PQP00', message = 'probe done';
exception
	when sqlstate 'PQP00' or lock_not_available then
		-- Locked by us: unchanged. Refused: another transaction is writing it, and the last committed row is the one we saw.
		return false;
	when serialization_failure then
		return true;
end
$$;
