-- What the chaos suite adds to the database: a log of every write that settles a task or touches a settled one, in the writer's own
-- transaction, so that a task that was settled twice cannot hide behind its last row.
create schema chaos;

create table chaos.settled (
	n bigint generated always as identity primary key,
	task_id uuid not null,
	from_status text not null,
	to_status text not null,
	lease_number integer not null,
	at timestamptz not null
);

create function chaos.note_settled() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
	insert into chaos.settled (task_id, from_status, to_status, lease_number, at)
	values (new.id, old.status::text, new.status::text, new.lease_number, coalesce(new.finished_at, clock_timestamp()));
	return null;
end
$$;

create trigger note_settled after update on pgqueue.task
for each row when (new.status not in ('READY', 'RUNNING') or old.status not in ('READY', 'RUNNING'))
execute function chaos.note_settled();

-- Written all the time, to see when the server itself does not answer.
create table chaos.heartbeat (
	one boolean primary key default true check (one),
	at timestamptz not null
);
insert into chaos.heartbeat (at) values (clock_timestamp());
