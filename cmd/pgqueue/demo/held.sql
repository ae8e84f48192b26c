-- How many tasks a worker holds. $1: namespace, $2: the worker's name.
select count(*)
from pgqueue.task t
join pgqueue.lease l on l.namespace = t.namespace and l.id = t.lease_id
where t.namespace = $1::text and t.status = 'RUNNING' and l.worker = $2::text
