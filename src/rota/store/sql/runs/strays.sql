-- All that the database believes this worker to hold. Read after a broken connection: a claim
-- whose answer was lost left runs that nobody would start.
SELECT id, attempt FROM rota.open_runs WHERE is_ready AND worker = %(worker)s::bigint
