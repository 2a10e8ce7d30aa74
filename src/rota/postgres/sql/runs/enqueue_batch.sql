-- Payloads come as one JSON array: as text[] each would be quoted once more.
SELECT run_id, is_duplicate FROM rota.enqueue_uniform(
    job => %(job)s::text,
    payloads => %(payloads)s::text::jsonb,
    queue => %(queue)s::text,
    priority => %(priority)s::integer,
    run_at => %(run_at)s::text::timestamptz,
    delay => make_interval(secs => %(delay)s::double precision),
    expires_at => %(expires_at)s::text::timestamptz,
    tenant => coalesce(%(tenant)s::text, ''),
    max_attempts => %(max_attempts)s::integer,
    timeout_seconds => %(timeout_seconds)s::double precision,
    backoff => %(backoff)s::text::jsonb,
    tags => %(tags)s::text[],
    metadata => %(metadata)s::text::jsonb,
    triggered_by => %(triggered_by)s::text::jsonb,
    validated_by => %(validated_by)s::integer,
    expires_in => make_interval(secs => %(expires_in)s::double precision))
