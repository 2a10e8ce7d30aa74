-- What has expired is over, whoever writes it down later.
SELECT id FROM rota.open_runs
WHERE id = ANY (%(ids)s::bigint[]) AND (expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at))
