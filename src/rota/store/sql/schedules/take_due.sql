SELECT schedule, clock, unfinished, is_job_enabled, calendar_definition
FROM rota.take_due_schedules(max_schedules => %(limit)s::integer, hold_seconds => %(hold_seconds)s::double precision)
