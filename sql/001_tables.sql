-- Types, tables and indexes. namespace is the first column of every key: the schema can be distributed by it.
-- Text is compared byte for byte (collate "C"), whatever the database's collation.

comment on schema pgqueue is 'Task queue. Call its functions; read task_view. Its tables are written by the functions only.';
comment on table pgqueue.schema_migration is 'version: number of the newest migration that this database has.';

create table pgqueue.schema_compatibility (
	one boolean primary key default true check (one),
	breaking_version integer not null
);
comment on table pgqueue.schema_compatibility is
'breaking_version: number of the newest migration that programs built for older ones cannot work with.';
insert into pgqueue.schema_compatibility (breaking_version) values (1);

create type pgqueue.task_status as enum ('READY', 'RUNNING', 'SUCCESSFUL', 'FAILED', 'LOST', 'DISCARDED');
comment on type pgqueue.task_status is
'State of a task. READY: waiting, scheduled or in retry backoff. RUNNING: claimed under a lease. SUCCESSFUL, FAILED, LOST and DISCARDED are settled: the task holds no active key any more.';

create type pgqueue.disposition as enum ('CREATED', 'REUSED');
comment on type pgqueue.disposition is
'What an enqueue did. CREATED: a new task. REUSED: nothing was inserted, the receipt describes the task that already existed.';

create type pgqueue.duplicate_match as enum ('ACTIVE', 'WINDOW', 'BOTH');
comment on type pgqueue.duplicate_match is
'Which key found the existing task: the active key, the window key, or both.';

create type pgqueue.attempt_outcome as enum ('FAILED', 'LOST', 'DISCARDED');
comment on type pgqueue.attempt_outcome is
'How an attempt ended that did not succeed. FAILED: the worker reported an error. LOST: its lease expired. DISCARDED: it ended the task for good, by the handler''s wish or after a cancel.';

create type pgqueue.write_result as enum ('OK', 'LEASE_LOST');
comment on type pgqueue.write_result is
'Answer to a worker''s write. LEASE_LOST: the task has moved on to another execution (or has settled), and nothing was changed.';

create type pgqueue.receipt as (
	ordinal integer,
	task_id uuid,
	disposition pgqueue.disposition,
	duplicate_match pgqueue.duplicate_match,
	policy_drift boolean,
	queue text,
	status pgqueue.task_status,
	priority integer,
	run_after timestamptz,
	attempt integer,
	created_at timestamptz,
	error_code text,
	error_message text,
	error_detail jsonb,
	conflicting_task_id uuid,
	conflicting_holder_id uuid
);
comment on type pgqueue.receipt is
'Answer to an enqueue: the stored task, never the caller''s own values. status and the columns after it are null for a task that was pruned. Of a refusal only the error columns are set.
Never null: ordinal.';
comment on column pgqueue.receipt.ordinal is 'Position of the item in a batch, from 1; 1 for a single enqueue.';
comment on column pgqueue.receipt.policy_drift is 'True when the window key matched but the caller asked for another policy (max_attempts, backoff, timeout, lease); the task keeps its own.';
comment on column pgqueue.receipt.error_code is 'SQLSTATE of the refusal; null when the enqueue was accepted.';
comment on column pgqueue.receipt.error_detail is 'The refusal for programs: an object whose members depend on error_code.';
comment on column pgqueue.receipt.conflicting_task_id is 'Of PQ001 and PQ002: the task that the window key points to.';
comment on column pgqueue.receipt.conflicting_holder_id is 'Of PQ002: the pending task that holds the active key.';

create type pgqueue._item as (
	ordinal integer,
	task_name text,
	payload jsonb,
	queue text,
	priority integer,
	run_after timestamptz,
	delay interval,
	active_key text,
	window_key text,
	window_length interval,
	max_attempts integer,
	backoff interval,
	max_backoff interval,
	timeout interval,
	lease interval,
	resource_keys text[],
	metadata jsonb,
	is_unique boolean,
	policy jsonb,
	lock_key bytea,
	derived boolean,
	id uuid
);
comment on type pgqueue._item is 'One item of a batch on its way through enqueue_many.';

create type pgqueue.claimed_task as (
	id uuid,
	name text,
	queue text,
	payload jsonb,
	metadata jsonb,
	resource_keys text[],
	priority integer,
	attempt integer,
	max_attempts integer,
	lease_number integer,
	timeout interval,
	run_after timestamptz,
	created_at timestamptz,
	claimed_at timestamptz
);
comment on type pgqueue.claimed_task is 'A task as its worker gets it. The outcome is written with id and lease_number.
Never null: id, name, queue, payload, priority, attempt, max_attempts, lease_number, run_after, created_at, claimed_at.';

create type pgqueue.lease_renewal as (
	renewed boolean,
	expires_at timestamptz,
	cancelled uuid[]
);
comment on type pgqueue.lease_renewal is
'Answer to renew_lease. renewed: false when the lease is gone, and with it every task that ran under it. cancelled: running tasks that were asked to stop.
Never null: renewed.';

create type pgqueue.failure as (
	task_id uuid,
	result pgqueue.write_result,
	status pgqueue.task_status,
	run_after timestamptz
);
comment on type pgqueue.failure is
'Answer to fail and fail_many: READY with the time of the next attempt, FAILED when attempts are spent, DISCARDED, or LEASE_LOST and nothing else.
Never null: task_id, result.';

create type pgqueue.reaped as (
	requeued bigint,
	lost bigint,
	discarded bigint
);
comment on type pgqueue.reaped is 'Answer to reap_lost: how many tasks went back to READY, became LOST, or were DISCARDED because they had been asked to stop.
Never null: requeued, lost, discarded.';

create type pgqueue.pruned as (
	tasks bigint,
	windows bigint,
	locks bigint,
	last_id uuid
);
comment on type pgqueue.pruned is 'Answer to prune: how many settled tasks, expired windows and stale locks were deleted. last_id: the last task that was deleted, or null; the next batch may begin after it.
Never null: tasks, windows, locks.';

create type pgqueue.maintained as (
	requeued bigint,
	lost bigint,
	discarded bigint,
	tasks bigint,
	windows bigint,
	locks bigint
);
comment on type pgqueue.maintained is
'Answer to maintain: tasks of lost workers that went back to READY, became LOST, or were DISCARDED; then tasks, windows and locks that were deleted.
Never null: requeued, lost, discarded, tasks, windows, locks.';

create type pgqueue.retried as (
	task_id uuid,
	holds_key boolean,
	key_holder_id uuid
);
comment on type pgqueue.retried is
'Answer to retry. holds_key: the task holds its active key (null when it was enqueued without one). key_holder_id: the newer task that holds the key while this one runs beside it.
Never null: task_id.';

create type pgqueue.key_explanation as (
	kind text,
	task_id uuid,
	status pgqueue.task_status,
	held boolean,
	since timestamptz,
	until timestamptz,
	worker text,
	explanation text
);
comment on type pgqueue.key_explanation is
'Answer to explain_key, one row for each key that was asked for. kind: ACTIVE or WINDOW. held: an enqueue now would get task_id instead of a new task. since: when the task was accepted under the key. until: when the key comes free by itself, null where no time is set. explanation: the same in words, with what would free the key.
Never null: kind, held, explanation.';

create type pgqueue.adoption as (
	task_id uuid,
	active_key text,
	adopted boolean,
	holder_id uuid,
	error text
);
comment on type pgqueue.adoption is
'Answer to adopt_pending, one row for each task that had no key. adopted: it holds its key now. holder_id: of a task that could not, the pending task that holds its key. error: why no key could be made.
Never null: task_id, adopted.';

create type pgqueue.violation as (
	namespace text,
	rule text,
	task_id uuid,
	details text
);
comment on type pgqueue.violation is
'A row that must not exist, see check_invariants.
Never null: namespace, rule, details.';

create type pgqueue.queue_stat as (
	queue text,
	ready bigint,
	scheduled bigint,
	running bigint,
	successful bigint,
	failed bigint,
	lost bigint,
	discarded bigint,
	oldest_ready_at timestamptz,
	paused boolean
);
comment on type pgqueue.queue_stat is
'Tasks of one queue by state. ready: due now; scheduled: READY but not due yet. oldest_ready_at: when the longest waiting due task became due.
Never null: queue, ready, scheduled, running, successful, failed, lost, discarded, paused.';

create table pgqueue.task (
	namespace text collate "C" not null,
	id uuid not null,
	name text collate "C" not null,
	queue text collate "C" not null,
	status pgqueue.task_status not null,
	-- Always (status = 'READY'). A column of its own because an index may not know status: only then is the write that
	-- finishes a task a heap-only (HOT) update.
	claimable boolean not null,
	priority smallint not null,
	attempt integer not null default 0,
	max_attempts integer not null,
	lease_number integer not null default 0,
	run_after timestamptz not null,
	created_at timestamptz not null,
	started_at timestamptz,
	finished_at timestamptz,
	cancel_requested_at timestamptz,
	lease_id uuid,
	lock_key bytea,
	active_key text collate "C",
	payload jsonb not null,
	metadata jsonb,
	resource_keys text[],
	policy jsonb,
	result jsonb,
	progress jsonb,
	primary key (namespace, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table pgqueue.task is 'One row per task. Read it through task_view; write it only through functions.';
comment on column pgqueue.task.id is 'UUID version 7: ids sort by creation time.';
comment on column pgqueue.task.attempt is 'Attempts begun so far. Snoozed and released ones are not counted.';
comment on column pgqueue.task.lease_number is 'Raised by every claim and by every reap that makes the task READY; a worker''s write must carry the current one.';
comment on column pgqueue.task.lease_id is 'The worker session that runs the task, or ran its last attempt.';
comment on column pgqueue.task.lock_key is 'Key of the unique_lock row this task was enqueued under; null when it took none, or when a retry found that the key had moved on.';
comment on column pgqueue.task.active_key is 'The explicit active key as text; null for none and for derived keys.';
comment on column pgqueue.task.policy is 'Milliseconds that differ from the defaults: backoff, max_backoff, timeout, lease.';

-- claim()
create index task_claim_idx on pgqueue.task (namespace, queue, priority desc, run_after, id) where claimable;
-- reap_lost(), close_lease(). Finished tasks stay in it until they are pruned: leaving it would cost the write that
-- finishes a task its HOT update.
create index task_lease_idx on pgqueue.task (namespace, lease_id) where lease_id is not null;
-- renew_lease()
create index task_cancel_idx on pgqueue.task (namespace, lease_id) where cancel_requested_at is not null;

create table pgqueue.attempt (
	namespace text collate "C" not null,
	task_id uuid not null,
	lease_number integer not null,
	attempt integer not null,
	outcome pgqueue.attempt_outcome not null,
	worker text,
	started_at timestamptz,
	finished_at timestamptz not null,
	error text,
	error_trace text,
	primary key (namespace, task_id, lease_number)
);
comment on table pgqueue.attempt is 'One row per attempt that did not simply succeed.';

create table pgqueue.lease (
	namespace text collate "C" not null,
	id uuid not null,
	worker text not null,
	length interval not null,
	opened_at timestamptz not null,
	renewed_at timestamptz not null,
	expires_at timestamptz not null,
	primary key (namespace, id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table pgqueue.lease is 'One row per worker session. A renewal updates this row and no task row. It has no index on expires_at, so that a renewal is a HOT update.';

create table pgqueue.unique_lock (
	namespace text collate "C" not null,
	key bytea not null,
	task_id uuid not null,
	primary key (namespace, key)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
comment on table pgqueue.unique_lock is 'Active keys. The primary key is the uniqueness promise. A row whose task is settled or gone is stale: it frees nothing and blocks nothing until the next enqueue of the key takes it over.';
comment on column pgqueue.unique_lock.key is 'SHA-256 of the canonical JSON [1, "active", task name, active key].';
comment on column pgqueue.unique_lock.task_id is 'The holder. No foreign key: pruning a task neither cascades here nor is held up; an id without its row reads as settled.';

create table pgqueue.unique_window (
	namespace text collate "C" not null,
	key bytea not null,
	task_id uuid not null,
	fingerprint bytea not null,
	policy_hash bytea not null,
	task_name text collate "C" not null,
	window_key text collate "C" not null,
	accepted_at timestamptz not null,
	expires_at timestamptz not null,
	primary key (namespace, key)
) with (fillfactor = 90);
comment on table pgqueue.unique_window is 'Window keys. A row is open while the server''s clock is before expires_at; it outlives its task.';
comment on column pgqueue.unique_window.key is 'SHA-256 of the canonical JSON [1, "window", task name, window key].';
comment on column pgqueue.unique_window.fingerprint is 'SHA-256 of the request, see pgqueue.fingerprint.';

-- prune() of expired windows
create index unique_window_expiry_idx on pgqueue.unique_window (namespace, expires_at);

create table pgqueue.task_type (
	namespace text collate "C" not null,
	name text collate "C" not null,
	queue text collate "C",
	priority smallint,
	max_attempts integer,
	policy jsonb,
	max_payload_bytes integer,
	active_required boolean not null,
	active_selector jsonpath,
	window_required boolean not null,
	window_selector jsonpath,
	window_ms bigint,
	declared_at timestamptz not null,
	primary key (namespace, name)
);
comment on table pgqueue.task_type is 'Declared task types: defaults, and the keys that every enqueue of the type must carry. Write it with declare_task.';

create table pgqueue.queue (
	namespace text collate "C" not null,
	name text collate "C" not null,
	paused_at timestamptz,
	waiting_until timestamptz,
	primary key (namespace, name)
) with (fillfactor = 50);
comment on table pgqueue.queue is 'State of queues that are paused or waited for. A queue needs no row to exist.';
comment on column pgqueue.queue.waiting_until is 'Until then some worker may be waiting for this queue, and an enqueue notifies it.';

create view pgqueue.task_view as
select t.namespace, t.id, t.name, t.queue, t.status, t.priority, t.attempt, t.max_attempts, t.run_after, t.created_at,
	t.started_at, t.finished_at, t.cancel_requested_at, t.lease_id, t.lease_number, l.worker,
	coalesce(t.active_key, case when t.lock_key is not null
		then encode(sha256(convert_to(jsonb_build_array(t.namespace, t.name, t.queue, t.payload)::text, 'UTF8')), 'hex') end) as active_key,
	t.payload, t.metadata, t.resource_keys, t.policy, t.result, t.progress
from pgqueue.task t
left join pgqueue.lease l on l.namespace = t.namespace and l.id = t.lease_id;
comment on view pgqueue.task_view is 'Tasks for people and for programs that only read. active_key is the explicit key, or the derived one.
Never null: namespace, id, name, queue, status, priority, attempt, max_attempts, run_after, created_at, lease_number, payload.';
