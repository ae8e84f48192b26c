package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// catalog is what the server knows about schema pgqueue. Types are as format_type names them, qualified with their schema.
type catalog struct {
	enums     []enumRow
	relations []relationRow
	functions []functionRow
}

type enumRow struct {
	Name, Comment string
	Labels        []string
}

// relationRow is a composite type, a view or a table.
type relationRow struct {
	Name, Comment string
	Columns       []string
	Types         []string
	Comments      []string
	NotNull       []bool
}

type functionRow struct {
	Name, Comment string
	Names         []string
	Types         []string
	Required      int
	OnlyIn        bool
	Result        string
	Set           bool
}

// The order is by bytes, so that it depends neither on the server's collation nor on its version.
const (
	enumsQuery = `
select t.typname::text as name, coalesce(obj_description(t.oid, 'pg_type'), '') as comment,
	array_agg(e.enumlabel::text order by e.enumsortorder) as labels
from pg_type t join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = 'pgqueue'::regnamespace
group by t.oid, t.typname order by t.typname::text collate "C"`

	relationsQuery = `
select c.relname::text as name,
	coalesce(case when c.relkind = 'c' then obj_description(c.reltype, 'pg_type') else obj_description(c.oid, 'pg_class') end, '') as comment,
	array_agg(a.attname::text order by a.attnum) as columns,
	array_agg(format_type(a.atttypid, null) order by a.attnum) as types,
	array_agg(coalesce(col_description(c.oid, a.attnum), '') order by a.attnum) as comments,
	array_agg(a.attnotnull order by a.attnum) as not_null
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'v', 'c')
group by c.oid, c.relname, c.relkind, c.reltype order by c.relname::text collate "C"`

	functionsQuery = `
select p.proname::text as name, coalesce(obj_description(p.oid, 'pg_proc'), '') as comment,
	coalesce(p.proargnames, '{}') as names,
	array(select format_type(u.o, null) from unnest(p.proargtypes::oid[]) with ordinality u(o, n) order by u.n) as types,
	(p.pronargs - p.pronargdefaults)::int as required,
	p.proargmodes is null as only_in,
	format_type(p.prorettype, null) as result, p.proretset as set
from pg_proc p
where p.pronamespace = 'pgqueue'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype and p.proname !~ '^_'
order by p.proname::text collate "C", p.oid`
)

func readCatalog(ctx context.Context, conn *pgx.Conn) (catalog, error) {
	var c catalog
	// format_type leaves out the schema of what the search_path finds.
	if _, err := conn.Exec(ctx, "set search_path = ''"); err != nil {
		return c, err
	}
	var err error
	if c.enums, err = rows[enumRow](ctx, conn, enumsQuery); err != nil {
		return c, fmt.Errorf("read enums: %w", err)
	}
	if c.relations, err = rows[relationRow](ctx, conn, relationsQuery); err != nil {
		return c, fmt.Errorf("read row types: %w", err)
	}
	if c.functions, err = rows[functionRow](ctx, conn, functionsQuery); err != nil {
		return c, fmt.Errorf("read functions: %w", err)
	}
	return c, nil
}

func rows[T any](ctx context.Context, conn *pgx.Conn, query string) ([]T, error) {
	found, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByName[T])
}
