SELECT run_id, job, is_duplicate
FROM rota.emit(%(event)s::text, payload => %(payload)s::text::jsonb, tenant => %(tenant)s::text, key => %(key)s::text,
    metadata => %(metadata)s::text::jsonb, key_seconds => %(key_seconds)s::double precision)
