package integration_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Each rule of the contracts finds what it is there for.
func TestContractsFindBreaches(t *testing.T) {
	t.Parallel()
	const head = "create function pgqueue.careless(task_name text, namespace text default null) returns int language plpgsql volatile parallel unsafe " +
		"security definer set search_path = pg_catalog, pg_temp as $$ "
	body := func(text string) string { return head + "begin " + text + " end $$" }
	broken := map[string]string{
		"a public function runs as its owner, who alone may touch the tables": "alter function pgqueue.claim security invoker",
		"an internal function runs as its caller":                             "alter function pgqueue._gate security definer",
		"a procedure commits, so it cannot run as its owner: it touches no table and names operators in full": `create procedure pgqueue.careless()
			language plpgsql as $$ begin delete from pgqueue.task; end $$`,
		"a public function pins its search path":                                           "alter function pgqueue.claim set search_path = pg_catalog, public",
		"an internal function leaves settings to its caller, else it could not be inlined": "alter function pgqueue._new_id set search_path = pg_catalog",
		"a public function may change planner settings, nothing else":                      "alter function pgqueue.claim set row_security = off",
		"PUBLIC may execute nothing":                                                       head + "begin end $$",
		"a public function has a comment":                                                  "comment on function pgqueue.claim is null",
		"a comment names the errors that the body raises":                                  "comment on function pgqueue.claim is 'Claims.'",
		"parameter names of public functions are plain":                                    "create function pgqueue.careless(p_name text) returns int language sql as 'select 1'",
		"every parameter has a name":                                                       "create function pgqueue.careless(text) returns int language sql as 'select 1'",
		"parameters of internal functions begin with p_":                                   "create function pgqueue._careless(name text) returns int language sql as 'select 1'",
		"namespace is the last parameter, and optional":                                    "create function pgqueue.careless(namespace text) returns int language sql as 'select 1'",
		"an enqueue function needs its first argument only":                                "create function pgqueue.enqueue_careless(a text, namespace text) returns int language sql as 'select 1'",
		"the enqueue functions take the same arguments":                                    "create function pgqueue.try_enqueue(a text, namespace text default null) returns int language sql as 'select 1'",
		"what writes is parallel unsafe, what only reads is safe":                          "alter function pgqueue.claim parallel safe",
		"a subtransaction cannot run in a parallel worker":                                 "alter function pgqueue._select_key parallel safe",
		"what is not volatile calls nothing that is":                                       "create function pgqueue._careless() returns uuid language sql stable as 'select pgqueue._new_id(pgqueue._now())'",
		"public functions are PL/pgSQL":                                                    "create function pgqueue.careless() returns int language sql as 'select 1'",
		"an SQL function writes nothing":                                                   "create function pgqueue._careless() returns void language sql as 'delete from pgqueue.task'",
		"nothing else is allowed as a language":                                            "create function pgqueue._careless(bigint) returns bigint language internal as 'int8up'",
		"leakproof is for those who can prove it":                                          "alter function pgqueue._now leakproof",

		"tables are named with their schema":     body("update task set attempt = 0;"),
		"functions are called with their schema": body("perform _release(null, null, null);"),
		"types are named with their schema":      body("perform 'READY'::task_status;"),
		"only _now reads a clock":                body("perform now();"),
		"a write to a table names one namespace": body("update pgqueue.task t set attempt = 0 where t.id is null;"),
		"no volatile function in a set list":     body("update pgqueue.task t set finished_at = pgqueue._now() where t.namespace = v_namespace;"),
		"advisory locks and notifications are for public functions, and what they call directly": "create function pgqueue._careless() returns void language plpgsql as $$ begin perform pg_notify('a', 'b'); end $$",
		"nobody looks at the name of a constraint or a table": `create function pgqueue._careless() returns void language plpgsql as $$ declare v text;
			begin perform 1; exception when others then get stacked diagnostics v = constraint_name; end $$`,

		"every relation has a comment":                                           "comment on table pgqueue.lease is null",
		"every type has a comment":                                               "comment on type pgqueue.task_status is null",
		"the schema has a comment":                                               "comment on schema pgqueue is null",
		"PUBLIC has no right on the schema":                                      "grant usage on schema pgqueue to public",
		"PUBLIC has no right on a relation":                                      "grant select on pgqueue.task_view to public",
		"PUBLIC has no right on a column":                                        "grant select (id) on pgqueue.task to public",
		"PUBLIC has no right on a type":                                          "create type pgqueue.careless as enum ()",
		"every table has a primary key, but for the migrator's one row":          "alter table pgqueue.queue drop constraint queue_pkey",
		"namespace leads every index":                                            "create index careless on pgqueue.task (id)",
		"namespace is the first column, text compared byte for byte, never null": "create table pgqueue.careless (id int)",
		"what is compared as a key is compared byte for byte":                    "create index careless on pgqueue.lease (namespace, worker)",
		"no index knows a task's status":                                         "create index careless on pgqueue.task (namespace) where status = 'READY'",
		"there is no sequence":                                                   "create sequence pgqueue.careless",
		"there is no trigger":                                                    "create trigger careless before update on pgqueue.task for each row execute function suppress_redundant_updates_trigger()",
		"there is no rule":                                                       "create rule careless as on delete to pgqueue.task do instead nothing",
		"there is no foreign key":                                                "alter table pgqueue.attempt add foreign key (namespace, task_id) references pgqueue.task",
		"no default calls a function":                                            "alter table pgqueue.task alter id set default gen_random_uuid()",
		"the installation leaves nothing outside its schema":                     "create function public.careless() returns pgqueue.receipt language sql as 'select null::pgqueue.receipt'",
	}
	rules := map[string]string{}
	for _, contract := range []map[string]string{functionRules, bodyRules, tableRules} {
		maps.Copy(rules, contract)
	}
	for rule := range rules {
		if broken[rule] == "" {
			t.Errorf("nothing shows that this rule finds a breach: %s", rule)
		}
	}
	conn := newEnv(t).session(t, readCommitted)
	for _, rule := range slices.Sorted(maps.Keys(broken)) {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, broken[rule])
		rows, err := tx.Query(t.Context(), rules[rule])
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(found) == 0 {
			t.Errorf("%q is not found to break the rule: %s (%v)", broken[rule], rule, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
