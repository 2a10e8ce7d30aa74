-- The ends of plain runs in a drain, and room for the claim beside each of them.

-- A claim needs as much room as the run has taken: with a little more of it every claim stays on its page.
ALTER TABLE rota.open_runs SET (fillfactor = 45);

-- What finish_runs does for runs that succeeded, with neither key nor schedule, all in the same attempt, whose ids lie close
-- together: one walk over the ids instead of a lookup for each, nothing to be sorted, no keys to be freed. Each id from the
-- first on has its place in durations_us; below 0: it has not ended. Answers how many were ended.
CREATE FUNCTION rota.finish_span(for_worker bigint, first_id bigint, of_attempt integer, durations_us bigint[], results jsonb[] DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
    moved     bigint;
BEGIN
    WITH ended AS (
        DELETE FROM rota.open_runs o
        WHERE o.id BETWEEN first_id AND first_id + cardinality(durations_us) - 1
          AND o.worker = for_worker AND o.attempt = of_attempt AND durations_us[o.id - first_id + 1] >= 0
          AND o.key IS NULL AND o.schedule_id IS NULL
        RETURNING o.id, o.created_at, o.run_at, o.started_at, durations_us[o.id - first_id + 1] AS us, o.attempts_used, o.max_attempts,
            o.priority, o.is_suspect, o.queue, o.job, o.tenant, o.payload, o.expires_at, o.timeout_seconds, o.backoff, o.tags, o.metadata,
            o.triggered_by, o.schedule, o.scheduled_for, o.progress, o.message
    )
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
        max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
        timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, progress, message, keep_class)
    SELECT id, created_at, run_at, greatest(started_at, clock - us * interval '1 microsecond'), clock, for_worker, of_attempt,
        us / real '1000', attempts_used + 1, max_attempts, priority, is_suspect, 'succeeded', 'succeeded', queue, job, tenant, payload,
        results[id - first_id + 1], expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
        progress, message,
        CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = ended.job AND k.state = 'succeeded'),
            (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = 'succeeded'), 'standard') ELSE 'standard' END
    FROM ended;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;
