SELECT to_jsonb(q)::text FROM (
{statement}
) q
