SELECT to_jsonb(b)::text FROM rota.schedules s JOIN rota.backfills b ON b.schedule_id = s.id WHERE s.tenant = %(tenant)s::text
