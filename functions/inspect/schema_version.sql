create or replace function pgqueue.schema_version()
returns integer
language plpgsql
stable
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	return (select m.version from pgqueue.schema_migration m);
end
$$;
comment on function pgqueue.schema_version() is
'Number of the newest migration that this database has.';
