-- The newest first, or one. `total` is what has been counted so far, at least what was worked on; is_counted: all of it.
SELECT id, verb, filter, payload, delay_seconds, most AS limit, rate, actor, reason, state, done, skipped, failed,
       least(greatest(counted, done + skipped + failed), most) AS total, counted_below IS NULL OR counted >= most OR state = 'finished' AS is_counted,
       problems, error, created_at, changed_at, finished_at,
       EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS has_worker,
       jsonb_build_array(id) AS place
FROM rota.bulk_actions
WHERE (%(id)s::bigint IS NULL OR id = %(id)s::bigint)
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (%(open)s::boolean IS NULL OR %(open)s::boolean = (state IN ('running', 'paused')))
  AND (%(after)s::jsonb IS NULL OR id < (%(after)s::jsonb ->> 0)::bigint)
ORDER BY id DESC LIMIT %(limit)s::integer
