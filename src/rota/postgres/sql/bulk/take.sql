-- The next one that is due, or this one, if nobody works on it. Its row stays locked until the batch is written.
SELECT id, verb, filter, payload::text AS payload, delay_seconds, most, rate, actor, reason, done, skipped, failed, below_id, counted, counted_below,
       held, held_tries, created_at
FROM rota.bulk_actions
WHERE state = 'running' AND next_at <= clock_timestamp() AND (%(id)s::bigint IS NULL OR id = %(id)s::bigint)
ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
