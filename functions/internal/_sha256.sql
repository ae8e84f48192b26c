-- SHA-256 over the canonical JSON: the text form of jsonb, whose object keys are unique and sorted (by length, then by bytes)
-- and whose numbers keep their digits.
create or replace function pgqueue._sha256(p_value jsonb)
returns bytea
language sql
stable
parallel safe
as $$ select sha256(convert_to(p_value::text, 'UTF8')) $$;
