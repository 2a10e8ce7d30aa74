-- Schedules of this name that are gone; their ledgers stay.
SELECT schedule_id FROM rota.deleted_schedules WHERE tenant = %(tenant)s::text AND name = %(name)s::text ORDER BY deleted_at DESC
