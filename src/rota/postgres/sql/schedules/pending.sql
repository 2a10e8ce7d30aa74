-- Schedules whose next time is not computed yet, as a tick reads them: of one name, or all.
SELECT s.id, t.tick_version, (to_jsonb(s) || to_jsonb(t))::text AS schedule,
       EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = s.id AND o.scheduled_for IS NOT NULL) AS is_unfinished
FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id
WHERE t.due_at IS NOT NULL AND t.next_run_at IS NULL
  AND (%(name)s::text IS NULL OR (s.tenant = %(tenant)s::text AND s.name = %(name)s::text))
