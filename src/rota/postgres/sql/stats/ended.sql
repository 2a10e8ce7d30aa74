-- How runs have ended since that is counted. A run succeeds once, by one attempt; other ends are counted themselves,
-- until the run is retried.
SELECT coalesce((SELECT sum(s.attempts) FROM rota.rollup_spans s
                 WHERE s.span = 'ever' AND s.job = ANY (coalesce((SELECT rota.names_of(%(job)s::text)), ARRAY[''])) AND s.outcome = 'succeeded'
                   AND s.queue = CASE WHEN %(job)s::text IS NULL THEN coalesce(%(queue)s::text, '') ELSE coalesce(%(queue)s::text, s.queue) END
                ), 0)::bigint
       + coalesce((SELECT sum(m.attempts) FROM rota.rollup_minutes m
                   WHERE m.worker <> 0 AND m.outcome = 'succeeded' AND (%(job)s::text IS NULL OR m.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[]))
                     AND (%(queue)s::text IS NULL OR m.queue = %(queue)s::text)), 0)::bigint AS succeeded,
       coalesce(sum(c.amount) FILTER (WHERE c.labels ->> 'state' = 'failed'), 0)::bigint AS failed,
       coalesce(sum(c.amount) FILTER (WHERE c.labels ->> 'state' = 'cancelled'), 0)::bigint AS cancelled
FROM rota.run_ends c
WHERE (%(job)s::text IS NULL OR c.labels ->> 'job' = ANY ((SELECT rota.names_of(%(job)s::text))::text[]))
  AND (%(queue)s::text IS NULL OR c.labels ->> 'queue' = %(queue)s::text)
