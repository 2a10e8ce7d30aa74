-- As text: read straight into a model, without a detour over dictionaries.
SELECT schedule::text, clock, unfinished, is_job_enabled, calendar_definition
FROM rota.take_due_schedules(max_schedules => %(limit)s::integer, hold_seconds => %(hold_seconds)s::double precision)
