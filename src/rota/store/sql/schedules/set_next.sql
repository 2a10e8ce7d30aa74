-- Computed, not set by somebody: the version says so. What another transaction holds is left to the tick.
UPDATE rota.schedules s SET next_run_at = %(at)s::timestamptz, version = s.version + 1
WHERE s.id IN (SELECT p.id FROM rota.schedules p WHERE p.id = %(id)s::bigint AND p.version = %(version)s::bigint FOR UPDATE SKIP LOCKED)
