SELECT to_jsonb(d)::text FROM rota.deleted_schedules d WHERE d.tenant = %(tenant)s::text
