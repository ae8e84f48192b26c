package integration_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
)

// breaches runs a query that names what breaks a rule: no row is what is wanted.
func breaches(t *testing.T, db gen.DB, rule, query string) {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	if len(found) > 0 {
		t.Errorf("%s:\n  %s", rule, strings.Join(found, "\n  "))
	}
}

// Every function of the schema. public: without a leading underscore, for everybody whom a role lets in. Parameters are what a
// caller passes.
const functionsSQL = `
with function as (
	select p.oid, p.proname::text as name, p.oid::regprocedure::text as signature, p.proname !~ '^_' as public, p.prokind, l.lanname as language,
		p.prosecdef, p.provolatile, p.proparallel, p.proconfig, p.prosrc, p.proacl, p.proowner, p.pronargs, p.pronargdefaults, p.proleakproof,
		p.proargnames[1:p.pronargs] as parameters
	from pg_proc p
	join pg_language l on l.oid = p.prolang
	where p.pronamespace = 'pgqueue'::regnamespace
)
`

// R1 and the house's rules for functions, read from the catalog.
func TestR1_FunctionContract(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if n := value[int](t, e.pool, functionsSQL+"select count(*) from function where public"); n < 30 {
		t.Fatalf("%d public functions", n)
	}
	for rule, query := range functionRules {
		breaches(t, e.pool, rule, query)
	}
}

// The rules for bodies, as far as their text shows them. The pinned path shows the rest at run time: what is not qualified is not found.
func TestR2_BodyContract(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for rule, query := range bodyRules {
		breaches(t, e.pool, rule, query)
	}
}

var functionRules = map[string]string{
	"a public function runs as its owner, who alone may touch the tables": functionsSQL + `
		select signature from function where public and prokind = 'f' and not prosecdef`,
	"a procedure commits, so it cannot run as its owner: it touches no table and names operators in full": functionsSQL + `
		select signature from function
		where prokind = 'p' and (prosecdef or prosrc ~ '\mpgqueue\.(task|attempt|lease|unique_\w+|task_type|queue)\M' or prosrc ~ '[^:<>=]\s[-+*/<>=]+\s')`,
	"an internal function runs as its caller": functionsSQL + `
		select signature from function where not public and prosecdef`,
	"a public function pins its search path": functionsSQL + `
		select format('%s: %s', signature, proconfig) from function
		where public and prokind = 'f' and not 'search_path=pg_catalog, pg_temp' = any (coalesce(proconfig, '{}'))`,
	"an internal function leaves settings to its caller, else it could not be inlined": functionsSQL + `
		select format('%s: %s', signature, proconfig) from function where not public and proconfig is not null`,
	"a public function may change planner settings, nothing else": functionsSQL + `
		select format('%s: %s', signature, c) from function, unnest(proconfig) c
		where c not in ('search_path=pg_catalog, pg_temp', 'enable_seqscan=off', 'enable_hashjoin=off', 'enable_mergejoin=off')`,
	"PUBLIC may execute nothing": functionsSQL + `
		select signature from function where exists (
			select from aclexplode(coalesce(proacl, acldefault('f', proowner))) a where a.grantee = 0)`,
	"a public function has a comment": functionsSQL + `
		select signature from function where public and coalesce(obj_description(oid, 'pg_proc'), '') = ''`,
	"a comment names the errors that the body raises": functionsSQL + `
		select format('%s: %s', signature, c[1]) from function, regexp_matches(prosrc, 'errcode = ''(\w+)''', 'g') c
		where public and obj_description(oid, 'pg_proc') !~ c[1]`,
	"parameter names of public functions are plain": functionsSQL + `
		select format('%s: %s', signature, a) from function, unnest(parameters) a where public and (a !~ '^[a-z]([a-z_]*[a-z])?$' or a ~ '^[pv]_')`,
	"every parameter has a name": functionsSQL + `
		select signature from function where pronargs > 0 and (parameters is null or '' = any (parameters))`,
	"parameters of internal functions begin with p_": functionsSQL + `
		select format('%s: %s', signature, a) from function, unnest(parameters) a where not public and a !~ '^p_[a-z_]*[a-z]$'`,
	"namespace is the last parameter, and optional": functionsSQL + `
		select signature from function
		where public and pronargs > 0 and name <> 'fingerprint' and (parameters[pronargs] <> 'namespace' or pronargdefaults = 0)`,
	"an enqueue function needs its first argument only": functionsSQL + `
		select signature from function where name ~ '^(try_)?enqueue' and pronargdefaults <> pronargs - 1`,
	"the enqueue functions take the same arguments": functionsSQL + `
		select f.signature from function f, function g
		where f.name ~ '^(try_)?enqueue(_unique)?$' and g.name = 'enqueue' and f.parameters <> g.parameters`,
	"what writes is parallel unsafe, what only reads is safe": functionsSQL + `
		select format('%s: volatile %s, parallel %s', signature, provolatile, proparallel) from function
		where public and proparallel <> case provolatile when 'v' then 'u' else 's' end`,
	"a subtransaction cannot run in a parallel worker": functionsSQL + `
		select signature from function where prosrc ~ '\mexception\s+when\M' and proparallel <> 'u'`,
	"what is not volatile calls nothing that is": functionsSQL + `
		select format('%s calls %s', f.signature, g.name) from function f, function g
		where f.provolatile <> 'v' and g.provolatile = 'v' and not g.public and g.name <> '_now' and f.prosrc ~ ('pgqueue\.' || g.name || '\(')`,
	"public functions are PL/pgSQL": functionsSQL + `
		select signature from function where public and language <> 'plpgsql'`,
	"an SQL function writes nothing": functionsSQL + `
		select signature from function where language = 'sql' and prosrc ~* '\m(insert|update|delete|merge|truncate)\M'`,
	"nothing else is allowed as a language": functionsSQL + `
		select signature from function where language not in ('sql', 'plpgsql')`,
	"leakproof is for those who can prove it": functionsSQL + `
		select signature from function where proleakproof`,
}

var bodyRules = map[string]string{
	"tables are named with their schema": functionsSQL + `
		select format('%s: %s', f.signature, c.relname) from function f, pg_class c
		where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'v')
			and f.prosrc ~ ('\m(from|join|into|update|using)\s+(only\s+)?' || c.relname || '\M(?!\.)')`,
	"functions are called with their schema": functionsSQL + `
		select format('%s: %s', f.signature, g.name) from function f, function g
		where f.prosrc ~ ('(^|[^.\w])' || g.name || '\(') and (g.name ~ '^_' or g.name ~ '_.*_')`,
	"types are named with their schema": functionsSQL + `
		select format('%s: %s', f.signature, y.typname) from function f, pg_type y
		where y.typnamespace = 'pgqueue'::regnamespace and f.prosrc ~ ('::\s*' || y.typname || '\M(?!\.)')`,
	"only _now reads a clock": functionsSQL + `
		select f.signature from function f
		where f.name <> '_now' and f.prosrc ~* '\m(now\(\)|(clock|statement|transaction)_timestamp\(|current_(timestamp|time|date)|localtime)'`,
	"a write to a table names one namespace": functionsSQL + `
		select format('%s: %s', f.signature, c[1]) from function f,
			regexp_matches(f.prosrc, '\m((?:update|delete from) pgqueue\.\w+ \w+\M(?:(?!;).)*)', 'g') c
		where c[1] !~ 'namespace = (v_namespace|p_namespace|p_lease\.namespace|coalesce\(\w+\.namespace, ''default''\))'`,
	"no volatile function in a set list": functionsSQL + `
		select f.signature from function f, regexp_matches(f.prosrc, '\m(update pgqueue\.(?:(?!\mwhere\M|\mfrom\M|;).)*)', 'g') c, function g
		where g.provolatile = 'v' and c[1] ~ ('pgqueue\.' || g.name || '\(')`,
	"advisory locks and notifications are for public functions, and what they call directly": functionsSQL + `
		select f.signature from function f where not f.public and f.prosrc ~ '\mpg_(notify|(try_)?advisory)'
			and (f.prosrc ~ 'pg_notify' or exists (select from function g where not g.public and g.prosrc ~ ('pgqueue\.' || f.name || '\(')))`,
	"nobody looks at the name of a constraint or a table": functionsSQL + `
		select f.signature from function f where f.prosrc ~ '(constraint_name|table_name)\M' and f.prosrc ~ 'get stacked diagnostics'`,
}
