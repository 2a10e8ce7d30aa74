-- The ledger shows the state of a backfill beside its run.

-- The state of a run, wherever it is; NULL once retention has deleted it.
-- Called by: occurrences, sql/schedules/history_only.sql.
CREATE FUNCTION rota.run_state(run_id bigint) RETURNS text LANGUAGE sql STABLE STRICT SET jit = off AS $$
    SELECT coalesce((SELECT CASE WHEN rota.is_over(o.state, o.expires_at) THEN 'cancelled' ELSE o.state END
                     FROM rota.open_runs o WHERE o.id = run_state.run_id),
                    (SELECT e.state FROM rota.find_ended(run_state.run_id) e))
$$;

CREATE OR REPLACE VIEW rota.occurrences AS
SELECT l.schedule, l.tenant, l.nominal_at, l.through_at, l.count, l.decision, l.reason, l.claimed_at, l.decided_at,
       l.decided_by, l.enqueued_at, l.run_id,
       (SELECT max(b.run_id) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_run_id,
       l.state, l.success, l.duration_ms, l.lateness_ms, l.error, l.is_moved, l.details, l.schedule_id,
       (SELECT rota.run_state(max(b.run_id)) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_state
FROM rota.ledger l;
