package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// trap fills a schema that the session's path names before pg_catalog: with a function or operator of the name and arguments of
// everything that the queue's functions use, each of which raises an error, and with tables of the queue's names.
const trap = `
do $$
declare
	v record;
begin
	for v in
		select p.proname, pg_get_function_identity_arguments(p.oid) as arguments, format_type(p.prorettype, null) as returns, p.proretset
		from pg_proc p
		where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
			and not exists (select from pg_type y where y.typtype = 'p' and y.oid = any (p.proargtypes::oid[] || p.prorettype))
			and p.proname in ('sha256', 'convert_to', 'encode', 'clock_timestamp', 'now', 'jsonb_build_array', 'octet_length', 'gen_random_uuid', 'uuid_send',
				'overlay', 'set_bit', 'current_setting', 'set_config', 'pg_is_in_recovery', 'pg_column_size', 'isfinite', 'left', 'to_jsonb', 'count',
				'jsonb_array_elements', 'jsonb_typeof', 'extract', 'trunc', 'random', 'pg_notify', 'substring', 'get_byte', 'upper', 'lpad')
	loop
		execute format('create function trap.%I(%s) returns %s%s language plpgsql as %L', v.proname, v.arguments,
			case when v.proretset then 'setof ' else '' end, v.returns, format('begin raise ''trapped in %s''; end', v.proname));
	end loop;
	for v in
		select o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r
		from pg_operator o
		where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprresult = 'bool'::regtype and o.oprleft <> 0
			and o.oprname in ('=', '<>', '<', '<=', '>', '>=', '~', '!~')
			and array[o.oprleft, o.oprright] <@ array['text'::regtype, 'uuid'::regtype, 'bytea'::regtype, 'int4'::regtype, 'int8'::regtype,
				'timestamptz'::regtype, 'interval'::regtype, 'jsonb'::regtype, 'bool'::regtype, 'numeric'::regtype]::oid[]
	loop
		execute format('create function trap.%I(%s, %s) returns boolean language plpgsql as %L', 'op' || v.oprname, v.l, v.r,
			format('begin raise ''trapped in operator %s''; end', v.oprname));
		execute format('create operator trap.%s (leftarg = %s, rightarg = %s, function = trap.%I)', v.oprname, v.l, v.r, 'op' || v.oprname);
	end loop;
	for v in select c.relname from pg_class c where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'v') loop
		execute format('create table trap.%I (like pgqueue.%I)', v.relname, v.relname);
	end loop;
end
$$`

// R2, case_C61: a path that puts false functions, operators and tables before the true ones changes nothing, and neither do
// temporary tables of the queue's names.
func TestR2_HostilePath(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	exec(t, e.pool, "create schema trap")
	exec(t, e.pool, trap)
	if n := value[int](t, e.pool, "select count(*) from pg_proc where pronamespace = 'trap'::regnamespace"); n < 60 {
		t.Fatalf("%d traps", n)
	}
	hostile := e.session(t, readCommitted, pgtest.RuntimeParam("search_path", "pg_temp, trap, pg_catalog"))
	for _, table := range []string{"task", "unique_lock", "unique_window", "task_type", "queue", "lease", "attempt", "task_view", "schema_migration"} {
		exec(t, hostile, fmt.Sprintf("create temporary table %s (like pgqueue.%s)", table, table))
	}
	// The traps are in the way of the session itself.
	if _, err := hostile.Exec(t.Context(), "select 1 where pg_catalog.clock_timestamp() = pg_catalog.clock_timestamp()"); err == nil || !strings.Contains(err.Error(), "trapped") {
		t.Fatalf("the session is not trapped: %v", err)
	}

	r := e.active("k")
	window := e.window("w", time.Hour)
	id := wantCreated(t, enqueue(t, hostile, r))
	wantReused(t, enqueue(t, hostile, r), id, gen.DuplicateMatchActive)
	linked := wantCreated(t, enqueue(t, hostile, window))
	wantReused(t, tryEnqueue(t, hostile, window), linked, gen.DuplicateMatchWindow)
	derived := request{TaskName: "derived", Payload: []byte(`{"a": [1, 1.0, "x"]}`), Namespace: &e.ns}
	first := wantCreated(t, enqueue(t, hostile, derived))
	wantReused(t, enqueue(t, e.pool, derived), first, gen.DuplicateMatchActive)
	many, err := gen.EnqueueMany(t.Context(), hostile, gen.EnqueueManyParams{Namespace: &e.ns,
		Items: []byte(`[{"task_name": "send", "active_key": "k"}, {"task_name": "send", "active_key": "m"}, {"task_name": "send", "active_key": "m"}]`)})
	if err != nil || len(many) != 3 {
		t.Fatalf("enqueue_many: %s, %v", show(many), err)
	}
	wantReused(t, many[0], id, gen.DuplicateMatchActive)
	wantReused(t, many[2], wantCreated(t, many[1]), gen.DuplicateMatchActive)

	lease, err := gen.OpenLease(t.Context(), hostile, gen.OpenLeaseParams{Worker: "w", Namespace: &e.ns})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := gen.Claim(t.Context(), hostile, gen.ClaimParams{LeaseID: lease, MaxTasks: ptr(10), Namespace: &e.ns, WaitFor: ptr(time.Second)})
	if err != nil || len(claimed) != 4 {
		t.Fatalf("claim: %s, %v", show(claimed), err)
	}
	if renewal, err := gen.RenewLease(t.Context(), hostile, gen.RenewLeaseParams{LeaseID: lease, Namespace: &e.ns}); err != nil || !renewal.Renewed {
		t.Errorf("renew_lease: %s, %v", show(renewal), err)
	}
	e.complete(t, hostile, claimed[0])
	e.fail(t, hostile, claimed[1], gen.TaskStatusReady)
	if n, err := gen.CloseLease(t.Context(), hostile, gen.CloseLeaseParams{LeaseID: lease, Namespace: &e.ns}); err != nil || n != 2 {
		t.Errorf("close_lease: %d, %v", n, err)
	}
	e.discard(t, hostile, claimed[1].ID)
	e.retry(t, hostile, claimed[1].ID)
	e.reap(t, hostile)
	e.prune(t, hostile)
	exec(t, hostile, "call pgqueue.maintain_all()")
	if found, err := gen.CheckInvariants(t.Context(), hostile, gen.CheckInvariantsParams{}); err != nil || len(found) > 0 {
		t.Errorf("check_invariants: %s, %v", show(found), err)
	}
	for _, schema := range []string{"trap", "pg_temp"} {
		if n := value[int](t, hostile, fmt.Sprintf("select pg_catalog.count(*) from %s.task", schema)); n != 0 {
			t.Errorf("%d rows in %s.task", n, schema)
		}
	}
	checkInvariants(t, e.pool)
}
