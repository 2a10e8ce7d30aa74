SELECT id, seq, attempt, attempts_used, max_attempts, priority, queue, job, payload, validated_by,
       timeout_seconds, is_expired, is_suspect, enqueued_at, claimed_at, rest
FROM rota.claim_suspect(for_worker => %(worker)s::bigint, from_queues => %(queues)s::text[], known_jobs => %(jobs)s::text[],
    inline_jobs => %(inline)s::text[])
