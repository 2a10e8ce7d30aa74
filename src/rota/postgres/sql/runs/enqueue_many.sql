-- An array is NULL when no run of the batch uses that option. Payloads come as one JSON array:
-- as text[] each would be quoted once more, which costs more than everything else here.
SELECT run_id, is_duplicate FROM rota.enqueue_many(
    jobs => %(jobs)s::text[],
    payloads => ARRAY(
        SELECT p.value FROM pg_catalog.jsonb_array_elements(%(payloads)s::text::jsonb) WITH ORDINALITY AS p (value, n)
        ORDER BY p.n),
    queues => %(queue)s::text[],
    priorities => %(priority)s::integer[],
    run_ats => %(run_at)s::text[]::timestamptz[],
    delays => CASE WHEN %(delay)s::double precision[] IS NOT NULL THEN ARRAY(
        SELECT make_interval(secs => d.seconds)
        FROM pg_catalog.unnest(%(delay)s::double precision[]) WITH ORDINALITY AS d (seconds, n) ORDER BY d.n) END,
    expires_ats => %(expires_at)s::text[]::timestamptz[],
    keys => %(key)s::text[],
    key_seconds => %(key_seconds)s::double precision[],
    on_conflicts => %(on_conflict)s::text[],
    tenants => %(tenant)s::text[],
    max_attempts => %(max_attempts)s::integer[],
    timeouts => %(timeout_seconds)s::double precision[],
    backoffs => %(backoff)s::text[]::jsonb[],
    tags => %(tags)s::text[]::jsonb[],
    metadatas => %(metadata)s::text[]::jsonb[],
    triggered_by => %(triggered_by)s::text::jsonb,
    validated_by => %(validated_by)s::integer[],
    expires_ins => CASE WHEN %(expires_in)s::double precision[] IS NOT NULL THEN ARRAY(
        SELECT make_interval(secs => d.seconds)
        FROM pg_catalog.unnest(%(expires_in)s::double precision[]) WITH ORDINALITY AS d (seconds, n) ORDER BY d.n) END)
