-- Ends of attempts, in batches. Every statement names the run, the attempt and the worker;
-- what it returns was accepted, what it does not return belongs to somebody else by now.
-- lock_timeout: one row locked by somebody's open transaction must not stall a batch. The
-- caller then asks lock_runs which of them are free, and ends those.
-- The fence does not name the state: a worker is set only on what runs.
-- id = ANY (ARRAY[f.id]) and not id = f.id: after a VACUUM that saw only dead rows the planner
-- takes the table for empty and merges with the whole primary key, whatever is switched off;
-- an array of one can only be looked up (docs/decisions/0002-data-shape.md: 30 times the rate).

-- The run is over: it moves to the history with its last attempt. Arrays left NULL mean success.
CREATE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types, errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error, traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond') AS started_at,
            o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.is_suspect, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds, o.backoff, o.tags,
            o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.progress, coalesce(f.message, o.message) AS message,
            f.error_type, f.error, f.traceback, f.end_reason, f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, details)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_suspect, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, detail
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    )
    SELECT id FROM ended;
END $$;

CREATE FUNCTION rota.after(at timestamptz, seconds double precision) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds = 'infinity' THEN 'infinity' ELSE at + make_interval(secs => seconds) END
$$;

-- The run goes on: a retry, a snooze, or a body that was cut off by a shutdown. The attempt
-- becomes a row of its own. A delay of NULL keeps the run's place in the line.
-- A run that somebody asked to cancel meanwhile ends here.
CREATE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL,
    details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types, errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), was AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.tenant FROM input f JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.delay > 0 THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.delay > 0 THEN clock + make_interval(secs => w.delay) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL, is_suspect = false,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            message = coalesce(w.message, o.message), progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker, greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback, w.detail
        FROM was w JOIN again a ON a.id = w.id
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, soonest FROM again;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors, array_agg(f.traceback) AS tracebacks,
               array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END) FROM unnest(b.attempt_states) s),
                          b.reasons, b.messages, b.error_types, b.errors, b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;

-- Which of these runs nobody has locked; takes their locks until the transaction ends.
CREATE FUNCTION rota.lock_runs(ids bigint[]) RETURNS SETOF bigint LANGUAGE sql VOLATILE AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = ANY (ids) FOR UPDATE SKIP LOCKED
$$;

CREATE FUNCTION rota.report_progress(for_worker bigint, ids bigint[], attempts integer[], fractions real[], messages text[])
RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE rota.open_runs o SET progress = f.fraction, message = coalesce(f.message, o.message)
    FROM unnest(ids, attempts, fractions, messages) AS f (id, attempt, fraction, message)
    WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
$$;
