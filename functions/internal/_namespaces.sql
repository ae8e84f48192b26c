-- The namespaces that a maintenance call goes through: the one given, or all that have rows. Work across namespaces is always a
-- loop over them.
create or replace function pgqueue._namespaces(p_namespace text)
returns setof text
language plpgsql
stable
as $$
declare
	v_namespace text := p_namespace;
begin
	if p_namespace is not null then
		return next p_namespace;
		return;
	end if;
	loop
		-- Jumps from one namespace to the next through the primary keys.
		select min(n.namespace) into v_namespace
		from (
			(select t.namespace from pgqueue.task t where v_namespace is null or t.namespace > v_namespace order by t.namespace limit 1)
			union all
			(select l.namespace from pgqueue.lease l where v_namespace is null or l.namespace > v_namespace order by l.namespace limit 1)
			union all
			(select k.namespace from pgqueue.unique_lock k where v_namespace is null or k.namespace > v_namespace order by k.namespace limit 1)
			union all
			(select w.namespace from pgqueue.unique_window w where v_namespace is null or w.namespace > v_namespace order by w.namespace limit 1)
		) n;
		exit when v_namespace is null;
		return next v_namespace;
	end loop;
end
$$;
