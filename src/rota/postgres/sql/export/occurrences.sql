-- The ledger, of one schedule after the other, also of those that are deleted.
SELECT to_jsonb(l)::text FROM (
    SELECT s.id FROM rota.schedules s WHERE s.tenant = %(tenant)s::text
    UNION SELECT d.schedule_id FROM rota.deleted_schedules d WHERE d.tenant = %(tenant)s::text) s
JOIN rota.ledger l ON l.schedule_id = s.id
