-- As text: read straight into a model, without a detour over dictionaries.
SELECT schedule::text, clock, unfinished, is_job_enabled, calendar_definition
FROM rota.read_due(ids => %(ids)s::bigint[])
