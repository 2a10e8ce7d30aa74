-- Whether registering again would write something, and what operators changed that a worker must know of.
SELECT coalesce(rota.must_sync(%(worker)s::bigint), false),
       coalesce(jsonb_object_agg(j.name, (SELECT jsonb_object_agg(e.key, to_jsonb(j) -> e.key) FROM jsonb_each(rota.as_object(j.edited)) e
                                          WHERE e.key IN ('timeout_seconds', 'backoff', 'log_level'))) FILTER (WHERE j.name IS NOT NULL), '{}')
FROM (SELECT 1) one
LEFT JOIN rota.jobs j ON j.name = ANY (%(jobs)s::text[]) AND j.edited ?| '{timeout_seconds,backoff,log_level}'
