-- What it says, and where it stands.
SELECT (to_jsonb(s) || (to_jsonb(t) - 'schedule_id'))::text FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
WHERE s.tenant = %(tenant)s::text ORDER BY s.name
