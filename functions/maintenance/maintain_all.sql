-- Neither SECURITY DEFINER nor with a pinned path: PostgreSQL lets no such procedure commit. It names every object in full, operators
-- too, and calls only functions that are both.
create or replace procedure pgqueue.maintain_all(
	retention interval default null,
	failed_retention interval default null,
	batch integer default null,
	namespace text default null)
language plpgsql
security invoker
as $$
declare
	v_batch integer := coalesce(maintain_all.batch, 1000);
	v_done pgqueue.maintained;
begin
	loop
		v_done := pgqueue.maintain(maintain_all.retention, maintain_all.failed_retention, v_batch, maintain_all.namespace);
		commit;
		exit when greatest(v_done.requeued operator(pg_catalog.+) v_done.lost operator(pg_catalog.+) v_done.discarded, v_done.tasks, v_done.windows)
			operator(pg_catalog.<) v_batch;
	end loop;
end
$$;
comment on procedure pgqueue.maintain_all(interval, interval, integer, text) is
'Runs maintain until nothing is left to do, and commits after each batch: for psql and pg_cron, as a statement of its own (call pgqueue.maintain_all()). What is done stays done when statement_timeout ends it. batch: tasks in a batch, default 1000. The others as in maintain.';
