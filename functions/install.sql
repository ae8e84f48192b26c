-- The functions of the queue, in order. The life of a task:
--
--   1. A producer calls enqueue, enqueue_unique or try_enqueue_unique. All of them pass one gate (_gate), which resolves the
--      type's defaults, checks the arguments and makes the keys before anything is written.
--   2. The gate reads the keys. An open window answers with its task; a pending holder of the active key answers with itself.
--      Neither takes a lock, writes a row or notifies anybody: the receipt says REUSED.
--   3. Otherwise the gate takes the keys (their tables' primary keys decide the races) and inserts the task, READY, in the
--      same transaction: the receipt says CREATED. A queue that somebody waits for is notified.
--   4. A worker opens a lease (open_lease), renews it at a third of its length (renew_lease: one row, no task rows), and
--      claims due tasks (claim): RUNNING, attempt and lease_number raised.
--   5. It writes the outcome with the lease_number (complete, fail, snooze). A number that no longer matches changes nothing
--      and answers LEASE_LOST.
--   6. complete: SUCCESSFUL, and the key is released. fail: READY again after a backoff while attempts are left, the key still
--      held; FAILED when they are spent. A cancelled or discarded one is DISCARDED.
--   7. A worker that falls silent keeps its tasks until its lease expires; then reap_lost makes them READY again, or LOST on
--      the last attempt. A worker that stops hands them back (close_lease).
--   8. SUCCESSFUL, FAILED, LOST and DISCARDED are settled: the key is free from that moment, because the gate reads it from
--      the task's row. An operator may run a settled task again (retry) or close one (discard).
--   9. prune deletes settled tasks past their retention, expired windows and stale locks.








-- internal
{{ template "internal/_now.sql" . }}
{{ template "internal/_new_id.sql" . }}
{{ template "internal/_sha256.sql" . }}
{{ template "internal/_refusal.sql" . }}
{{ template "internal/_name_error.sql" . }}
{{ template "internal/_milliseconds.sql" . }}
{{ template "internal/_backoff.sql" . }}
{{ template "internal/_announce.sql" . }}
{{ template "internal/_argument_error.sql" . }}
{{ template "internal/_batch_items.sql" . }}
{{ template "internal/_batch_locks.sql" . }}
{{ template "internal/_batch_sequence.sql" . }}
{{ template "internal/_batch_set.sql" . }}
{{ template "internal/_claim_priorities.sql" . }}
{{ template "internal/_claim_queue.sql" . }}
{{ template "internal/_claim_range.sql" . }}
{{ template "internal/_declared_keys.sql" . }}
{{ template "internal/_derived_key.sql" . }}
{{ template "internal/_fingerprint.sql" . }}
{{ template "internal/_fresh_read.sql" . }}
{{ template "internal/_gate.sql" . }}
{{ template "internal/_guarded_gate.sql" . }}
{{ template "internal/_invalid_state.sql" . }}
{{ template "internal/_key_error.sql" . }}
{{ template "internal/_key_mismatch.sql" . }}
{{ template "internal/_key_required.sql" . }}
{{ template "internal/_lock_key.sql" . }}
{{ template "internal/_namespaces.sql" . }}
{{ template "internal/_policy.sql" . }}
{{ template "internal/_policy_hash.sql" . }}
{{ template "internal/_probe_task.sql" . }}
{{ template "internal/_probe_window.sql" . }}
{{ template "internal/_race.sql" . }}
{{ template "internal/_raise.sql" . }}
{{ template "internal/_reap_lease.sql" . }}
{{ template "internal/_reclaim_key.sql" . }}
{{ template "internal/_release.sql" . }}
{{ template "internal/_resolve_keys.sql" . }}
{{ template "internal/_select_key.sql" . }}
{{ template "internal/_selector.sql" . }}
{{ template "internal/_take_over.sql" . }}
{{ template "internal/_take_window.sql" . }}
{{ template "internal/_unknown_task.sql" . }}
{{ template "internal/_window_gate.sql" . }}
{{ template "internal/_window_key.sql" . }}

-- producer
{{ template "producer/enqueue.sql" . }}
{{ template "producer/enqueue_many.sql" . }}
{{ template "producer/enqueue_unique.sql" . }}
{{ template "producer/fingerprint.sql" . }}
{{ template "producer/pending_holder.sql" . }}
{{ template "producer/try_enqueue.sql" . }}
{{ template "producer/try_enqueue_unique.sql" . }}
{{ template "producer/unique_key.sql" . }}

-- worker
{{ template "worker/claim.sql" . }}
{{ template "worker/close_lease.sql" . }}
{{ template "worker/complete.sql" . }}
{{ template "worker/complete_many.sql" . }}
{{ template "worker/fail_many.sql" . }}
{{ template "worker/fail.sql" . }}
{{ template "worker/open_lease.sql" . }}
{{ template "worker/renew_lease.sql" . }}
{{ template "worker/set_progress.sql" . }}
{{ template "worker/snooze.sql" . }}

-- operator
{{ template "operator/adopt_pending.sql" . }}
{{ template "operator/cancel.sql" . }}
{{ template "operator/discard.sql" . }}
{{ template "operator/forget_window.sql" . }}
{{ template "operator/pause_queue.sql" . }}
{{ template "operator/reschedule.sql" . }}
{{ template "operator/resume_queue.sql" . }}
{{ template "operator/retry.sql" . }}

-- maintenance
{{ template "maintenance/release_stale.sql" . }}
{{ template "maintenance/reap_lost.sql" . }}
{{ template "maintenance/prune.sql" . }}
{{ template "maintenance/maintain.sql" . }}
{{ template "maintenance/maintain_all.sql" . }}

-- inspect
{{ template "inspect/check_invariants.sql" . }}
{{ template "inspect/explain_key.sql" . }}
{{ template "inspect/get_task.sql" . }}
{{ template "inspect/list_attempts.sql" . }}
{{ template "inspect/queue_stats.sql" . }}
{{ template "inspect/schema_version.sql" . }}

-- setup
{{ template "setup/declare_task.sql" . }}
{{ template "setup/schedule_warning.sql" . }}

-- PUBLIC has no right on anything: a new function would else be open to everybody. grant_* hand out what a role needs.
revoke all on all routines in schema pgqueue from public;
do $$
declare
	v_type regtype;
begin
	for v_type in
		select t.oid from pg_catalog.pg_type t
		where t.typnamespace = 'pgqueue'::regnamespace and t.typtype in ('c', 'd', 'e')
	loop
		execute pg_catalog.format('revoke all on type %s from public', v_type);
	end loop;
end
$$;
