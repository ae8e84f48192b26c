package integration_test

import "testing"

// The relations that belong to the whole database and not to a namespace.
const relationsSQL = `
with relation as (
	select c.oid, c.relname::text as name, c.relkind, c.relacl, c.relowner, c.relname ~ '^schema_' as administrative
	from pg_class c
	where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
), index as (
	select i.indexrelid::regclass::text as name, i.indrelid, i.indkey[0] as first, i.indisprimary,
		pg_get_indexdef(i.indexrelid) as definition, pg_get_expr(i.indpred, i.indrelid) as predicate
	from pg_index i join relation r on r.oid = i.indrelid
)
`

// R1 and the house's rules for tables, types and indexes, read from the catalog.
func TestR1_TableContract(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for rule, query := range tableRules {
		breaches(t, e.pool, rule, query)
	}
}

var tableRules = map[string]string{
	"every relation has a comment": relationsSQL + `
		select name from relation where coalesce(obj_description(oid, 'pg_class'), '') = ''`,
	"every type has a comment": relationsSQL + `
		select y.oid::regtype::text from pg_type y
		where y.typnamespace = 'pgqueue'::regnamespace and y.typtype in ('e', 'd', 'c')
			and not exists (select from relation r where r.oid = y.typrelid)
			and coalesce(obj_description(y.oid, 'pg_type'), obj_description(y.typrelid, 'pg_class'), '') = ''`,
	"the schema has a comment": relationsSQL + `
		select nspname::text from pg_namespace where nspname = 'pgqueue' and obj_description(oid, 'pg_namespace') is null`,
	"PUBLIC has no right on the schema": relationsSQL + `
		select nspacl::text from pg_namespace where nspname = 'pgqueue' and exists (
			select from aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a where a.grantee = 0)`,
	"PUBLIC has no right on a relation": relationsSQL + `
		select r.name from relation r where exists (
			select from aclexplode(coalesce(relacl, acldefault('r', relowner))) a where a.grantee = 0)`,
	"PUBLIC has no right on a column": relationsSQL + `
		select format('%s.%s', r.name, a.attname) from relation r join pg_attribute a on a.attrelid = r.oid
		where exists (select from aclexplode(a.attacl) x where x.grantee = 0)`,
	"PUBLIC has no right on a type": relationsSQL + `
		select y.oid::regtype::text from pg_type y
		where y.typnamespace = 'pgqueue'::regnamespace and y.typtype in ('e', 'd', 'c') and exists (
			select from aclexplode(coalesce(y.typacl, acldefault('T', y.typowner))) a where a.grantee = 0)`,
	"every table has a primary key, but for the migrator's one row": relationsSQL + `
		select name from relation r
		where relkind = 'r' and name <> 'schema_migration' and not exists (select from index i where i.indrelid = r.oid and i.indisprimary)`,
	"namespace leads every index": relationsSQL + `
		select i.definition from index i join relation r on r.oid = i.indrelid
		where not r.administrative and i.first <> (select a.attnum from pg_attribute a where a.attrelid = r.oid and a.attname = 'namespace')`,
	"namespace is the first column, text compared byte for byte, never null": relationsSQL + `
		select r.name from relation r
		where r.relkind = 'r' and not r.administrative and not exists (
			select from pg_attribute a
			where a.attrelid = r.oid and a.attnum = 1 and a.attname = 'namespace' and a.atttypid = 'text'::regtype and a.attnotnull
				and a.attcollation = '"C"'::regcollation)`,
	"what is compared as a key is compared byte for byte": relationsSQL + `
		select format('%s.%s', r.name, a.attname) from relation r
		join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and a.atttypid = 'text'::regtype
		join index i on i.indrelid = r.oid
		where a.attnum = any (array(select unnest(x.indkey) from pg_index x where x.indexrelid = i.name::regclass)) and a.attcollation <> '"C"'::regcollation`,
	"no index knows a task's status": relationsSQL + `
		select i.definition from index i join relation r on r.oid = i.indrelid
		where r.name = 'task' and i.definition ~ '\mstatus\M'`,
	"there is no sequence": relationsSQL + `
		select oid::regclass::text from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'S'`,
	"there is no trigger": relationsSQL + `
		select format('%s on %s', g.tgname, r.name) from pg_trigger g join relation r on r.oid = g.tgrelid`,
	"there is no rule": relationsSQL + `
		select format('%s on %s', w.rulename, r.name) from pg_rewrite w join relation r on r.oid = w.ev_class where r.relkind <> 'v'`,
	"there is no foreign key": relationsSQL + `
		select format('%s: %s', conrelid::regclass, pg_get_constraintdef(oid)) from pg_constraint
		where contype = 'f' and (connamespace = 'pgqueue'::regnamespace or confrelid in (select oid from relation))`,
	"no default calls a function": relationsSQL + `
		select format('%s.%s: %s', r.name, a.attname, pg_get_expr(d.adbin, d.adrelid))
		from pg_attrdef d join relation r on r.oid = d.adrelid join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
		where pg_get_expr(d.adbin, d.adrelid) ~ '\('`,
	"the installation leaves nothing outside its schema": relationsSQL + `
		select format('%s %s', i.type, i.identity) from pg_depend d
		cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) i
		where d.objid >= 16384 and d.classid in ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass, 'pg_cast'::regclass, 'pg_operator'::regclass)
			and i.schema is distinct from 'pgqueue' and i.schema !~ '^pg_toast'`,
}
