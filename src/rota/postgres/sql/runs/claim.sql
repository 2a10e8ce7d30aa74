SELECT id, seq, attempt, attempts_used, max_attempts, priority, queue, job, payload, validated_by,
       timeout_seconds, is_expired, is_suspect, enqueued_at, claimed_at, rest, tenant
FROM rota.claim_runs(
    for_worker => %(worker)s::bigint,
    max_runs => %(limit)s::integer,
    from_queues => %(queues)s::text[],
    quota => %(quota)s::integer,
    known_jobs => %(jobs)s::text[],
    hints => %(hints)s::bigint[],
    batch => %(batch)s::bigint,
    start_batch => %(start_batch)s::bigint,
    lane => %(lane)s::text)
