-- The function that a SQL job calls, as it is now; without a definition where it is gone.
SELECT pg_get_functiondef(f.id) AS definition
FROM rota.jobs j
CROSS JOIN LATERAL (
    SELECT CASE WHEN j.function_name LIKE '%%)' THEN to_regprocedure(j.function_name)
                ELSE coalesce(to_regprocedure(j.function_name || '(jsonb)'), to_regprocedure(j.function_name || '()')) END::oid) f (id)
WHERE j.name = %(name)s::text AND j.kind = 'sql'
