-- The ids of schedules in another order than by name: `next` is due first, `last` ran last, `newest` and `changed` as they say.
-- Thin, as all that fit are put in order; what a page shows is read afterwards.
SELECT o.id, jsonb_build_array(o.place, o.id) AS place FROM (
SELECT s.id, p.place
FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'next' THEN coalesce(date_part('epoch', v.next_run_at), 1e300)
                                WHEN 'last' THEN coalesce(-date_part('epoch', v.last_run_at), 1e300)
                                WHEN 'changed' THEN -date_part('epoch', s.updated_at)
                                ELSE -date_part('epoch', s.created_at) END AS place) p
{schedules/fitting}
  AND (%(after)s::jsonb IS NULL
       OR (p.place, s.id) > ((%(after)s::jsonb ->> 0)::double precision, (%(after)s::jsonb ->> 1)::bigint))
ORDER BY p.place, s.id LIMIT %(limit)s::integer
) o ORDER BY o.place, o.id
