-- What prune_runs would remove, but for what lies in partitions that go as a whole.
SELECT count(*) AS rows FROM rota.ended_runs r
WHERE r.job = %(job)s::text AND r.state = ANY (%(states)s::text[]) AND r.finished_at <= %(at)s::timestamptz
  AND (r.finished_at < %(at)s::timestamptz OR r.id <= %(id)s::bigint)
  AND r.keep_class <> %(spared_class)s::text AND r.tableoid <> ALL (%(dropped)s::oid[])
