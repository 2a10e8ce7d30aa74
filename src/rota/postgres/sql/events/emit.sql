-- A row for each run, or one with its number only where there is none. The number is of this session's last event.
SELECT e.run_id, e.job, e.is_duplicate, pg_catalog.currval('rota.event_ids'::pg_catalog.regclass) AS event_id
FROM (SELECT 1) one LEFT JOIN rota.emit(%(event)s::text, payload => %(payload)s::text::jsonb, tenant => %(tenant)s::text, key => %(key)s::text,
    metadata => %(metadata)s::text::jsonb, key_seconds => %(key_seconds)s::double precision, parent_run_id => %(parent_run_id)s::bigint,
    hook => %(hook)s::text, period_seconds => %(period_seconds)s::double precision, source => %(source)s::text::jsonb,
    key_scope => %(key_scope)s::text) e ON true
