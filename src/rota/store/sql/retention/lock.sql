-- One at a time, for runs and for lines. The locks are the session's, because what they guard is many transactions; they end
-- with the connection.
SELECT (NOT %(runs)s::boolean OR pg_try_advisory_lock(hashtextextended('rota.prune_runs', 0)))
   AND (NOT %(logs)s::boolean OR pg_try_advisory_lock(hashtextextended('rota.prune_logs', 0))) AS is_ours
