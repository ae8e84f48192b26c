-- One line a finding: function:line: level: SQLSTATE: message (detail; hint; query)
select regexp_replace(
  format('%s:%s: %s: %s: %s', p.proname, coalesce(c.lineno, 0), c.level, c.sqlstate, c.message)
    || coalesce(' (' || nullif(concat_ws('; ', c.detail, c.hint, c.query), '') || ')', ''),
  '\s+', ' ', 'g')
from pg_proc p
join pg_language l on l.oid = p.prolang
cross join lateral plpgsql_check_function_tb(
  p.oid,
  fatal_errors         => false,
  extra_warnings       => true,
  performance_warnings => true,
  security_warnings    => true) c
where l.lanname = 'plpgsql'
  and p.pronamespace = 'pgqueue'::regnamespace
  and p.prorettype <> 'trigger'::regtype
order by p.proname, p.oid, c.lineno;
