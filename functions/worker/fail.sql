create or replace function pgqueue.fail(
	task_id uuid,
	lease_number integer,
	error text,
	error_trace text default null,
	retry_after interval default null,
	discard boolean default null,
	namespace text default null)
returns pgqueue.failure
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
	v_failure pgqueue.failure;
begin
	select f.* into v_failure
	from pgqueue.fail_many(array[fail.task_id], array[fail.lease_number], array[fail.error], array[fail.error_trace],
		array[fail.retry_after], array[fail.discard], fail.namespace) f;
	return v_failure;
end
$$;
comment on function pgqueue.fail(uuid, integer, text, text, interval, boolean, text) is
'Ends an attempt with an error. With attempts left the task goes back to READY, after retry_after or else its backoff (doubled with each attempt, plus or minus 10 %); on the last it is FAILED. discard => true, or an earlier cancel, makes it DISCARDED at once. The active key stays held while the task is READY.
error, error_trace: kept with the attempt, the first 65,536 characters of each. lease_number: as claimed.
Returns the new status, or result = LEASE_LOST when the task has moved on or is settled: nothing was changed. The last execution of a LOST task may write FAILED, it is not retried. Errors: 22023 negative retry_after.';
