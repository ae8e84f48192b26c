select string_agg(line, E'\n' order by line) || E'\n'
from (
	select format('schema: acl %s, %s', n.nspacl, obj_description(n.oid, 'pg_namespace'))
	from pg_namespace n where n.nspname = 'pgqueue'
	union all
	select format('function %s: acl %s, %s, %s', p.oid::regprocedure, p.proacl, obj_description(p.oid, 'pg_proc'), pg_get_functiondef(p.oid))
	from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace
	union all
	select format('relation %s: kind %s, %s, options %s, acl %s, %s, %s', c.relname, c.relkind, c.relpersistence, c.reloptions, c.relacl,
		obj_description(c.oid, 'pg_class'), case when c.relkind = 'v' then pg_get_viewdef(c.oid) end)
	from pg_class c where c.relnamespace = 'pgqueue'::regnamespace
	union all
	select format('column %s.%s: number %s, %s, collation %s, not null %s, default %s, acl %s, %s', c.relname, a.attname, a.attnum,
		format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attacl,
		col_description(c.oid, a.attnum))
	from pg_attribute a
	join pg_class c on c.oid = a.attrelid
	left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
	where c.relnamespace = 'pgqueue'::regnamespace and a.attnum > 0
	union all
	select format('constraint %s of %s: %s, %s', k.conname, k.conrelid::regclass, pg_get_constraintdef(k.oid), obj_description(k.oid, 'pg_constraint'))
	from pg_constraint k where k.connamespace = 'pgqueue'::regnamespace
	union all
	select format('index %s', pg_get_indexdef(i.indexrelid))
	from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'pgqueue'::regnamespace
	union all
	select format('type %s: kind %s, acl %s, %s, labels %s', y.typname, y.typtype, y.typacl, obj_description(y.oid, 'pg_type'),
		(select array_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = y.oid))
	from pg_type y where y.typnamespace = 'pgqueue'::regnamespace
	union all
	select format('trigger %s', pg_get_triggerdef(g.oid))
	from pg_trigger g join pg_class c on c.oid = g.tgrelid where c.relnamespace = 'pgqueue'::regnamespace
	union all
	select format('version %s', m.version) from pgqueue.schema_migration m
	union all
	select format('compatibility %s', m) from pgqueue.schema_compatibility m
) l (line)
