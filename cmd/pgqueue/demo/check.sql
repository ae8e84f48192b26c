-- What is in the database when the demo is over, to be compared with the receipts.
-- $1: namespace, $2: the ids of all receipts, $3: the ids of those that say CREATED.
select
	t.tasks, t.successful, t.failed, t.lost, t.discarded, t.pending,
	a.failed - t.failed as retried, a.lost as reaped,
	(
		select count(*) from (
			select from pgqueue.task where namespace = $1::text and lock_key is not null and status in ('READY', 'RUNNING')
			group by lock_key having count(*) > 1
		) k
	) as doubled,
	(
		select count(*) from unnest($2::text[]) r (id)
		where not exists (select from pgqueue.task where namespace = $1::text and task.id = r.id::uuid)
	) as missing,
	(
		select count(*) from pgqueue.task
		where namespace = $1::text and not exists (select from unnest($3::text[]) r (id) where r.id::uuid = task.id)
	) as unknown,
	(
		select count(*) from pgqueue.unique_window w
		where w.namespace = $1::text and not exists (select from pgqueue.task where namespace = $1::text and task.id = w.task_id)
	) as windows_to_nothing
from (
	select
		count(*) as tasks,
		count(*) filter (where status = 'SUCCESSFUL') as successful,
		count(*) filter (where status = 'FAILED') as failed,
		count(*) filter (where status = 'LOST') as lost,
		count(*) filter (where status = 'DISCARDED') as discarded,
		count(*) filter (where status in ('READY', 'RUNNING')) as pending
	from pgqueue.task where namespace = $1::text
) t, (
	select
		count(*) filter (where outcome = 'FAILED') as failed,
		count(*) filter (where outcome = 'LOST') as lost
	from pgqueue.attempt where namespace = $1::text
) a
