-- The function that a SQL job calls, as it is now; without a definition where it is gone.
SELECT pg_get_functiondef(rota.job_function(j.function_name)) AS definition
FROM rota.jobs j WHERE j.name = %(name)s::text AND j.kind = 'sql'
