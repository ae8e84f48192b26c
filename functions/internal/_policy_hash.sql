-- Two policies with one hash are the same policy.
create or replace function pgqueue._policy_hash(p_max_attempts integer, p_policy jsonb)
returns bytea
language sql
stable
parallel safe
as $$ select substring(pgqueue._sha256(jsonb_build_array(p_max_attempts, p_policy)) for 16) $$;
