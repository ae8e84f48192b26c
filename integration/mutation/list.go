package mutation

// All slips, each of which somebody could make in one line of a function.
var All = []Mutation{
	{
		Name: "takeover without a look at the holder's status",
		Edits: []Edit{
			{"_take_over", "and t.status in ('READY', 'RUNNING');", "and false;"},
			{"_take_over", "and t.status in ('READY', 'RUNNING'));", "and false);"},
		},
		Tests: "TestA14_",
	},
	{
		Name:  "holder locked at READ COMMITTED",
		Edits: []Edit{{"_gate", "from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1", "from pgqueue.task h where h.namespace = p_namespace and h.id = l.task_id limit 1 for share"}},
		Tests: "TestA13_",
	},
	{
		Name:  "transaction time instead of the clock",
		Edits: []Edit{{"_now", "clock_timestamp()", "now()"}},
		Tests: "TestW2_ClockTimestamp",
	},
	{
		Name:  "queue forgotten in the derived key",
		Edits: []Edit{{"_derived_key", "jsonb_build_array(p_namespace, p_task_name, p_queue, p_payload)", "jsonb_build_array(p_namespace, p_task_name, p_payload)"}},
		Tests: "TestA8_",
	},
	{
		Name:  "task name forgotten in the active key",
		Edits: []Edit{{"_lock_key", "'active', p_task_name, p_active_key", "'active', p_active_key"}},
		Tests: "TestA9_",
	},
	{
		Name:  "task name forgotten in the window key",
		Edits: []Edit{{"_window_key", "'window', p_task_name, p_window_key", "'window', p_window_key"}},
		Tests: "TestW7_",
	},
	{
		Name:  "key released by key alone",
		Edits: []Edit{{"_release", " and l.task_id = any (p_task_ids)", ""}},
		Tests: "TestA19_",
	},
	{
		Name: "key released by a failed attempt with attempts left",
		Edits: []Edit{{"fail", "\treturn v_failure;", `	perform pgqueue._release(t.namespace, array[t.lock_key], array[t.id]) from pgqueue.task t where t.id = fail.task_id;
	return v_failure;`}},
		Tests: "TestA2_",
	},
	{
		Name:  "closed window instead of half open",
		Edits: []Edit{{"_window_gate", "v_now < v_seen.expires_at", "v_now <= v_seen.expires_at"}},
		Tests: "TestW2_HalfOpen",
	},
	{
		Name:  "expired window taken without comparing whose it was",
		Edits: []Edit{{"_take_window", " and w.accepted_at = p_expired_accepted_at", ""}},
		Tests: "TestC5_",
	},
	{
		Name:  "priority forgotten in the fingerprint",
		Edits: []Edit{{"_fingerprint", "p_queue, p_priority,", "p_queue,"}},
		Tests: "TestW5_",
	},
	{
		Name:  "receipt of a duplicate with the caller's queue",
		Edits: []Edit{{"_gate", "'REUSED', 'ACTIVE', false, v.queue, v.status", "'REUSED', 'ACTIVE', false, v.to_queue, v.status"}},
		Tests: "TestA5_",
	},
	{
		Name:  "duplicate that notifies",
		Edits: []Edit{{"enqueue_unique", "if v_receipt.disposition = 'CREATED' then", "if v_receipt.task_id is not null then"}},
		Tests: "TestA6_",
	},
	{
		Name:  "no probe of the holder at REPEATABLE READ",
		Edits: []Edit{{"_gate", "if p_snapshot and pgqueue._probe_task", "if false and pgqueue._probe_task"}},
		Tests: "TestIsolation",
	},
	{
		Name:  "no probe of the window at REPEATABLE READ",
		Edits: []Edit{{"_window_gate", "if p_snapshot and v_seen.key is not null and", "if false and"}},
		Tests: "TestI8_",
	},
	{
		Name:  "probe that keeps its lock",
		Edits: []Edit{{"_probe_task", "raise exception using errcode = 'PQP00', message = 'probe done';", "return false;"}},
		Tests: "TestI2_",
	},
	{
		Name:  "fresh read that believes in any holder",
		Edits: []Edit{{"_guarded_gate", "if v_fresh.task_id = (v_receipt.error_detail ->> 'holder_id')::uuid then", "if v_fresh is not null then"}},
		Tests: "TestFreshRead",
	},
	{
		Name:  "lease number forgotten in complete",
		Edits: []Edit{{"complete", " and t.lease_number = complete.lease_number", ""}},
		Tests: "TestLeaseNumber",
	},
	{
		Name: "batch that takes its keys in input order",
		Edits: []Edit{
			{"_batch_set", "select distinct on (i.lock_key) i.lock_key, i.id\n", "select d.lock_key, d.id from (select distinct on (i.lock_key) i.lock_key, i.id, i.ordinal\n"},
			{"_batch_set", "order by i.lock_key, i.ordinal\n\tloop", "order by i.lock_key, i.ordinal) d order by d.ordinal\n\tloop"},
		},
		Tests: "TestB4_",
	},
	{
		Name:  "batches of both paths side by side",
		Edits: []Edit{{"_batch_locks", "case when p_set then pg_advisory_xact_lock_shared(1885958517, b.bucket) else pg_advisory_xact_lock(1885958517, b.bucket) end", "b.bucket"}},
		Tests: "TestB4_",
	},
	{
		Name:  "retry that keeps a key which moved on",
		Edits: []Edit{{"retry", "lock_key = case when v_retried.holds_key then t.lock_key end", "lock_key = t.lock_key"}},
		Tests: "TestA14_|TestA19_",
	},
	{
		Name:  "key's length counted in characters",
		Edits: []Edit{{"_gate", "octet_length(p_active_key) not between 1 and 512", "length(p_active_key) not between 1 and 512"}},
		Tests: "TestK_",
	},
	{
		Name: "stale keys released although their task waits",
		Edits: []Edit{
			{"release_stale", "and t.id = k.task_id and t.status in ('READY', 'RUNNING'))", "and t.id = k.task_id and t.status = 'RUNNING')"},
			{"release_stale", "where t.status not in ('READY', 'RUNNING')", "where t.status <> 'RUNNING'"},
		},
		Tests: "TestCase_C21_C22_|TestA11_",
	},
	{
		Name:  "search path left to the caller",
		Edits: []Edit{{"enqueue_unique", "\n SET search_path TO 'pg_catalog', 'pg_temp'", ""}},
		Tests: "TestR2_HostilePath",
	},
}
