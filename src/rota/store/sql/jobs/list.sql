SELECT j.name, j.description, j.queue, j.priority, j.max_attempts, j.timeout_seconds, j.backoff, j.executor, j.payload_schema,
       j.tags, j.metadata, j.source, j.created_at, j.updated_at,
       j.default_payload, j.is_enabled, j.application, j.code, j.edited, j.deleted_from_code_at,
       (SELECT count(*) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND j.name = ANY (w.jobs)) AS workers
FROM rota.jobs j
WHERE j.name = %(name)s::text OR (%(name)s::text IS NULL AND (%(include_system)s::boolean OR NOT j.is_system))
ORDER BY j.name
