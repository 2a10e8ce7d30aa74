SELECT count(*) AS rows FROM rota.logs l
WHERE l.job = %(job)s::text AND l.at < %(before_at)s::timestamptz AND l.tableoid <> ALL (%(dropped)s::oid[])
  AND NOT (%(spare_failed)s::boolean AND EXISTS (SELECT FROM rota.ended_runs r WHERE r.id = l.run_id AND r.state = 'failed'))
