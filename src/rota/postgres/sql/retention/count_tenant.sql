-- What prune_tenant would remove, but for what lies in partitions that go as a whole.
SELECT count(*) AS rows FROM rota.ended_runs r
WHERE r.tenant = %(tenant)s::text AND r.tenant <> '' AND r.state = ANY (%(states)s::text[]) AND r.finished_at < %(before_at)s::timestamptz
  AND r.tableoid <> ALL (%(dropped)s::oid[])
