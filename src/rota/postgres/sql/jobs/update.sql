-- Changes the columns that are given; those named in reset go back to what the code says.
UPDATE rota.jobs j SET
    (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload, events, event_filters, event_delivery, log_level, retention,
     delay_seconds, expires_in_seconds, key, tenant, function_name, run_as, transaction_mode) = (
    SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata, r.default_payload, r.events, r.event_filters, r.event_delivery, r.log_level, r.retention,
           r.delay_seconds, r.expires_in_seconds, r.key, r.tenant, r.function_name, r.run_as, r.transaction_mode
    FROM jsonb_populate_record(j, %(columns)s::text::jsonb || coalesce(
        (SELECT jsonb_object_agg(c.key, c.value) FROM jsonb_each(j.code) c WHERE c.key = ANY (%(reset)s::text[])), '{}')) r)
WHERE j.name = %(name)s::text
RETURNING j.name
