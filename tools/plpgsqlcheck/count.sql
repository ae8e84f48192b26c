select count(*)
from pg_proc p
join pg_language l on l.oid = p.prolang
where l.lanname = 'plpgsql' and p.pronamespace = to_regnamespace('pgqueue');
