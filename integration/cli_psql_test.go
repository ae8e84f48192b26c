package integration_test

import (
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// psql runs a script from stdin or a file, and returns what it prints.
func psql(t *testing.T, url, stdin string, args ...string) string {
	t.Helper()
	program := "psql"
	if programs, err := devserver.FindPrograms(); err == nil {
		program = programs.Path("psql")
	}
	if _, err := osexec.LookPath(program); err != nil {
		inPath, pathErr := osexec.LookPath("psql")
		if pathErr != nil {
			t.Fatalf("the test needs psql, which is neither %s nor in PATH: install postgresql-client", program)
		}
		program = inPath
	}
	cmd := osexec.CommandContext(t.Context(), program, append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url}, args...)...)
	cmd.Env = onURL("", "").env
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return string(out)
}

// catalog describes everything in the schema, one line per thing.
const catalog = `
select format('schema %s owner %s acl %s', n.nspname, pg_get_userbyid(n.nspowner), n.nspacl) from pg_namespace n where n.nspname = 'pgqueue'
union all
select format('function %s %s acl %s: %s', p.oid::regprocedure, pg_get_function_result(p.oid), p.proacl, md5(pg_get_functiondef(p.oid)))
from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace
union all
select format('column %s.%s %s %s not null %s default %s', c.oid::regclass, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull,
	pg_get_expr(d.adbin, d.adrelid))
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = 'pgqueue'::regnamespace
union all
select format('relation %s %s %s acl %s', c.oid::regclass, c.relkind, c.reloptions, c.relacl) from pg_class c where c.relnamespace = 'pgqueue'::regnamespace
union all
select pg_get_indexdef(c.oid) from pg_class c where c.relnamespace = 'pgqueue'::regnamespace and c.relkind = 'i'
union all
select format('constraint %s %s %s', c.conname, c.conrelid::regclass, pg_get_constraintdef(c.oid)) from pg_constraint c
where c.connamespace = 'pgqueue'::regnamespace
union all
select format('enum %s %s', e.enumtypid::regtype, e.enumlabel) from pg_enum e join pg_type t on t.oid = e.enumtypid where t.typnamespace = 'pgqueue'::regnamespace
union all
select format('comment %s %s: %s', i.identity, d.objsubid, d.description) from pg_description d,
	pg_identify_object(d.classoid, d.objoid, d.objsubid) i where i.schema = 'pgqueue' or i.identity like 'pgqueue.%'
union all
select format('version %s', version) from pgqueue.schema_migration
order by 1`

// cliSQL: what the command prints for psql installs the same as migrate.
func cliSQL(t *testing.T, bin string) {
	script := onURL(bin, "").run(t, "", "sql")
	migrated, installed := pgtest.Empty(t), pgtest.Empty(t)
	onURL(bin, migrated.URL()).run(t, "", "migrate")
	if out := psql(t, installed.URL(), script, "-1"); out != "" {
		t.Errorf("psql prints %q", out)
	}
	describe := func(db *pgtest.DB) []string {
		rows, err := db.Conn(t).Query(t.Context(), catalog)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	want, got := describe(migrated), describe(installed)
	if len(want) < 200 {
		t.Fatalf("the catalog has only %d lines", len(want))
	}
	difference := map[string]int{}
	for _, line := range want {
		difference[line]++
	}
	for _, line := range got {
		difference[line]--
	}
	for line, n := range difference {
		if n != 0 {
			t.Errorf("migrate has %+d of %s", n, line)
		}
	}
	onURL(bin, installed.URL()).created(t, "t")
	if out := onURL(bin, installed.URL()).run(t, "", "migrate"); !strings.HasSuffix(out, ": up to date\n") {
		t.Errorf("migrate after psql prints %q", out)
	}
}

// TestQuickstartInPSQL runs the example, twice on one database as it promises.
func TestQuickstartInPSQL(t *testing.T) {
	t.Parallel()
	const want = `first enqueue: CREATED
second enqueue: REUSED ACTIVE READY same task: t
claimed: send_invoice of order 42 attempt 1
completed: OK
state now: SUCCESSFUL with result {"sent": true}
third enqueue: CREATED same task: f
in the end: DISCARDED
`
	db := pgtest.New(t)
	for range 2 {
		if got := psql(t, db.URL(), "", "-f", filepath.Join("..", "examples", "psql", "quickstart.sql")); got != want {
			t.Errorf("the example prints\n%s\nwant\n%s", got, want)
		}
	}
}
