-- The ids of all schedules that need somebody: those of parked_, stopped_, orphaned_, late_ and missed_schedules.
SELECT t.schedule_id AS id FROM rota.schedule_state t WHERE t.parked_at IS NOT NULL
UNION
SELECT s.id FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
WHERE s.paused_by = 'rota' AND s.paused_at IS NOT NULL AND s.is_enabled AND t.finished_at IS NULL
UNION
SELECT s.id FROM rota.jobs j JOIN rota.schedules s ON s.job = j.name JOIN rota.schedule_state t ON t.schedule_id = s.id
WHERE j.deleted_from_code_at IS NOT NULL AND s.is_enabled AND s.paused_at IS NULL AND t.finished_at IS NULL
UNION
SELECT s.id FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id
WHERE t.due_at < rota.now() - interval '1 minute'
  AND CASE WHEN t.due_at < '1000-01-02Z' THEN s.updated_at ELSE t.due_at END < rota.now() - interval '1 minute'
UNION
SELECT s.id FROM rota.ledger l JOIN rota.schedules s ON s.id = l.schedule_id
WHERE l.decision = 'missed' AND l.decided_at > rota.now() - interval '1 day' AND NOT s.is_shadow AND NOT s.is_system
  AND NOT EXISTS (SELECT FROM rota.backfill_times b WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at)
