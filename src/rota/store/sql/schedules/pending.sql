-- Schedules whose next time is not computed yet, as a tick reads them: of one name, or all.
SELECT s.id, s.tick_version, to_jsonb(s)::text AS schedule,
       EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = s.id AND o.scheduled_for IS NOT NULL) AS is_unfinished
FROM rota.schedules s
WHERE s.is_ticking AND s.init IS NULL AND s.next_run_at IS NULL
  AND (%(name)s::text IS NULL OR (s.tenant = %(tenant)s::text AND s.name = %(name)s::text))
