-- All tasks, as the end of a phase compares them with what producers and workers noted.
select
	id, status::text as status, lease_number, attempt, max_attempts, coalesce(active_key, '') as active_key, payload,
	coalesce(result ->> 'worker', '') as result_worker, coalesce((result ->> 'lease')::integer, 0) as result_lease,
	created_at, coalesce(finished_at, 'epoch') as finished_at
from pgqueue.task
