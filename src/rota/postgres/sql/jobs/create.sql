-- A job whose body is a function of the database; what is not given has the default of its column. Nothing is written where the name is taken.
INSERT INTO rota.jobs (name, kind, function_name, run_as, transaction_mode, description, queue, priority, max_attempts, timeout_seconds, backoff, tags,
    metadata, default_payload, events, event_filters, event_delivery, log_level, retention, delay_seconds, expires_in_seconds, key, tenant)
SELECT %(name)s::text, 'sql', r.function_name, r.run_as, coalesce(r.transaction_mode, 'whole'), coalesce(r.description, ''), coalesce(r.queue, 'default'),
    coalesce(r.priority, 5), coalesce(r.max_attempts, 3), r.timeout_seconds, r.backoff, coalesce(r.tags, '{}'), coalesce(r.metadata, '{}'),
    r.default_payload, coalesce(r.events, '{}'), coalesce(r.event_filters, '{}'), r.event_delivery, r.log_level, r.retention, r.delay_seconds,
    r.expires_in_seconds, r.key, r.tenant
FROM jsonb_populate_record(NULL::rota.jobs, %(columns)s::text::jsonb) r
ON CONFLICT (name) DO NOTHING
RETURNING function_name
