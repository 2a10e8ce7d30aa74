SELECT hold, ids
FROM rota.hold_due(max_schedules => %(limit)s::integer, hold_seconds => %(hold_seconds)s::double precision)
