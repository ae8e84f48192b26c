-- One look at a key with eyes that are not bound to the caller's snapshot: over dblink, in a READ COMMITTED read-only transaction of
-- its own, when a DBA has made the foreign server pgqueue_loopback. Returns the holder as a receipt; null when the key is not
-- held any more, when there is no such server, or when anything went wrong: the caller then reports the race.
create or replace function pgqueue._fresh_read(p_namespace text, p_task_name text, p_active_key text)
returns pgqueue.receipt
language plpgsql
volatile
as $$
declare
	v_connection constant text := 'pgqueue_fresh_read';
	v_schema text;
	v_open boolean;
	v_receipt pgqueue.receipt;
begin
	select n.nspname::text into v_schema
	from pg_extension e
	join pg_namespace n on n.oid = e.extnamespace
	where e.extname = 'dblink'
		and exists (
			select from pg_foreign_server s
			cross join lateral pg_options_to_table(s.srvoptions) o
			where s.srvname = 'pgqueue_loopback' and o.option_name = 'connect_timeout' and o.option_value ~ '^[12]$');
	if not found then
		return null;
	end if;
	begin
		execute format('select %I.dblink_connect($1, ''pgqueue_loopback'')', v_schema) using v_connection;
		execute format('select %I.dblink_exec($1, $2)', v_schema) using v_connection,
			'begin isolation level read committed read only; set local lock_timeout = ''100ms''; set local statement_timeout = ''2s''';
		execute format('select (h.receipt::pgqueue.receipt).* from %I.dblink($1, $2) h (receipt text)', v_schema)
		into v_receipt
		using v_connection, format('select h::text from pgqueue.pending_holder(task_name => %L, active_key => %L, namespace => %L) h',
			p_task_name, p_active_key, p_namespace);
	exception when others then
		v_receipt := null;
	end;
	execute format('select $1 = any (%I.dblink_get_connections())', v_schema) into v_open using v_connection;
	if v_open then
		execute format('select %I.dblink_disconnect($1)', v_schema) using v_connection;
	end if;
	return v_receipt;
end
$$;
