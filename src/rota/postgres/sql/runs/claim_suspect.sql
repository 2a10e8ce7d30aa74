-- It writes into the worker's row too. Where somebody holds that, the suspect is soon free again for other workers.
SELECT id, seq, attempt, attempts_used, max_attempts, priority, queue, job, payload, validated_by,
       timeout_seconds, is_expired, is_suspect, enqueued_at, claimed_at, rest, tenant
FROM (SELECT set_config('lock_timeout', '500ms', true) IS NOT NULL AS is_set) bound
CROSS JOIN LATERAL rota.claim_suspect(
    for_worker => CASE WHEN bound.is_set THEN %(worker)s::bigint END, from_queues => %(queues)s::text[],
    known_jobs => %(jobs)s::text[], inline_jobs => %(inline)s::text[])
