-- How far the tasks are, for the display. $1: namespace.
-- retried: failed attempts after which the task went back to READY. reaped: attempts whose worker fell silent.
-- doubled: active keys with more than one pending task, which must never be seen.
select
	t.ready, t.scheduled, t.running, t.settled, a.failed - t.failed as retried, a.lost as reaped,
	(
		select count(*) from (
			select from pgqueue.task where namespace = $1::text and lock_key is not null and status in ('READY', 'RUNNING')
			group by lock_key having count(*) > 1
		) k
	) as doubled
from (
	select
		count(*) filter (where status = 'READY' and run_after <= clock_timestamp()) as ready,
		count(*) filter (where status = 'READY' and run_after > clock_timestamp()) as scheduled,
		count(*) filter (where status = 'RUNNING') as running,
		count(*) filter (where status not in ('READY', 'RUNNING')) as settled,
		count(*) filter (where status = 'FAILED') as failed
	from pgqueue.task where namespace = $1::text
) t, (
	select
		count(*) filter (where outcome = 'FAILED') as failed,
		count(*) filter (where outcome = 'LOST') as lost
	from pgqueue.attempt where namespace = $1::text
) a
