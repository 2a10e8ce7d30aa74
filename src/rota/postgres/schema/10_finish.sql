-- How an attempt ends. `finish_runs` and `finish_span` move the run to the history, `requeue_runs` lets it go on (a
-- retry, a snooze, a shutdown), `end_waiting_runs` ends what never started. Every statement names run, attempt and
-- worker: a worker that was declared lost changes nothing.

-- Which of these runs nobody has locked; takes their locks until the transaction ends.
-- Called by: sql/runs/lock.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_runs(ids bigint[]) RETURNS SETOF bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = ANY (ids) FOR UPDATE SKIP LOCKED
$$;

-- The key of a run that has ended, and until when it is kept; NULL: it is free.
CREATE TYPE rota.ended_key AS (run_id bigint, tenant text, job text, key text, until timestamptz);

-- Frees the keys of runs that have ended, or keeps them until their time. Whoever ends a run waits for nobody: where
-- somebody's transaction holds a key, or the table, that is noted, and sweep carries it out.
-- Called by: end_waiting_runs, finish_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.release_keys(ended rota.ended_key[], ended_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    freed bigint;
BEGIN
    BEGIN
        DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(
            SELECT h.ctid FROM unnest(ended) e CROSS JOIN LATERAL (SELECT o.ctid FROM rota.keys o
                WHERE o.tenant = e.tenant AND o.job = e.job AND o.key = e.key AND o.run_id = e.run_id
                LIMIT 1 FOR UPDATE SKIP LOCKED) h
            WHERE e.until IS NULL));
        GET DIAGNOSTICS freed = ROW_COUNT;
        IF freed = cardinality(ended) THEN
            RETURN;
        END IF;
        UPDATE rota.keys k SET expires_at = m.until
        FROM (SELECT h.ctid AS tid, e.until FROM unnest(ended) e CROSS JOIN LATERAL (SELECT o.ctid FROM rota.keys o
                WHERE o.tenant = e.tenant AND o.job = e.job AND o.key = e.key AND o.run_id = e.run_id
                LIMIT 1 FOR UPDATE SKIP LOCKED) h
              WHERE e.until IS NOT NULL) m
        WHERE k.ctid = m.tid;
    EXCEPTION WHEN lock_not_available THEN
        NULL;   -- somebody has locked the whole table: all of them are noted
    END;
    -- What is released above has its time, or is gone.
    INSERT INTO rota.key_releases (run_id, tenant, job, key, expires_at)
    SELECT e.run_id, e.tenant, e.job, e.key, coalesce(e.until, ended_at)
    FROM unnest(ended) e CROSS JOIN LATERAL (SELECT FROM rota.keys o
        WHERE o.tenant = e.tenant AND o.job = e.job AND o.key = e.key AND o.run_id = e.run_id
          AND o.expires_at IS NULL LIMIT 1) h
    ON CONFLICT DO NOTHING;
END $$;

-- Carries out what release_keys had to leave, where nobody holds the key any more.
-- Called by: sweep.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_key_releases(max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    settled integer;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.key_releases) THEN
        RETURN 0;
    END IF;
    WITH free AS MATERIALIZED (
        SELECT r.* FROM rota.key_releases r
        JOIN rota.keys k ON k.tenant = r.tenant AND k.job = r.job AND k.key = r.key AND k.run_id = r.run_id
        LIMIT max_rows FOR UPDATE SKIP LOCKED
    ), written AS (
        UPDATE rota.keys k SET expires_at = f.expires_at FROM free f
        WHERE k.tenant = f.tenant AND k.job = f.job AND k.key = f.key AND k.run_id = f.run_id
    )
    DELETE FROM rota.key_releases r WHERE r.run_id IN (SELECT f.run_id FROM free f);
    GET DIAGNOSTICS settled = ROW_COUNT;
    -- Somebody has taken the key over meanwhile, or deleted it.
    DELETE FROM rota.key_releases r WHERE r.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.key_releases o WHERE NOT EXISTS (SELECT FROM rota.keys k
            WHERE k.tenant = o.tenant AND k.job = o.job AND k.key = o.key AND k.run_id = o.run_id)
        FOR UPDATE SKIP LOCKED));
    RETURN settled;
END $$;

-- Writes how far runs have come. Only rows of this worker and this attempt are touched. Returns the runs that somebody
-- holds: theirs is not written.
-- Called by: sql/runs/progress.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.report_progress(for_worker bigint, ids bigint[], attempts integer[], fractions real[],
    messages text[])
RETURNS SETOF bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    WITH said AS MATERIALIZED (
        SELECT f.id, f.fraction, f.message, r.tid AS free
        FROM unnest(ids, attempts, fractions, messages) AS f (id, attempt, fraction, message)
        CROSS JOIN LATERAL (SELECT FROM rota.open_runs o
            WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker) own
        LEFT JOIN LATERAL (SELECT o.ctid AS tid FROM rota.open_runs o
            WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
            FOR NO KEY UPDATE SKIP LOCKED) r ON true
    ), written AS (
        UPDATE rota.open_runs o SET progress = s.fraction, message = coalesce(s.message, o.message)
        FROM said s WHERE o.id = ANY (ARRAY[s.id]) AND s.free IS NOT NULL
    )
    SELECT s.id FROM said s WHERE s.free IS NULL
$$;

-- What finish_runs does for runs that succeeded, with neither key nor schedule, all in the same attempt, whose ids
-- lie close together: one walk over the ids instead of a lookup for each, nothing to be sorted, no keys to be freed.
-- Each id from the first on has its place in durations_us; below 0: it has not ended. Limits get their slots back.
-- Returns how many were ended.
-- Called by: sql/runs/finish_span.sql.
CREATE FUNCTION rota.finish_span(for_worker bigint, first_id bigint, of_attempt integer, durations_us bigint[],
    results jsonb[] DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms'
SET jit = off AS $$
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
        RETURNING o.id, o.created_at, o.run_at, o.started_at, durations_us[o.id - first_id + 1] AS us, o.attempts_used,
            o.max_attempts, o.priority, o.suspicion, o.queue, o.job, o.tenant, o.payload, o.expires_at,
            o.timeout_seconds, o.backoff, o.tags, o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.progress,
            o.message, o.slots
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN 'succeeded' END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3
    )
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms,
        attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result,
        expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, progress, message,
        keep_class)
    SELECT id, created_at, run_at, greatest(started_at, clock - us * interval '1 microsecond'), clock, for_worker,
        of_attempt, us / real '1000', attempts_used + 1, max_attempts, priority, suspicion > 0, 'succeeded',
        'succeeded', queue, job, tenant, payload, results[id - first_id + 1], expires_at, timeout_seconds, backoff,
        tags, metadata, triggered_by, schedule, scheduled_for, progress, message,
        CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k
            WHERE k.job = ended.job AND k.state = 'succeeded'),
            (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = 'succeeded'), 'standard')
                ELSE 'standard' END
    FROM ended;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ARRAY(SELECT w.run_id FROM rota.waits w
            WHERE w.run_id BETWEEN first_id AND first_id + cardinality(durations_us) - 1), clock);
    END IF;
    RETURN moved;
END $$;

-- The runs are over: each moves to the history with its last attempt. Arrays left NULL mean success. Only rows of
-- this worker and this attempt are touched, and the answer names them. In no order: a row has one worker, and whatever
-- else writes it (progress, upkeep) passes over what is locked. Keys are freed or kept for their period, limits get
-- their slots back, and whoever waits for a run is told.
-- Called by: refuse_runs, requeue_runs, rescue_runs, settle_kept_ends, sql/runs/end.sql, sql/runs/finish.sql,
-- time_out_run.
CREATE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
    done      record;
BEGIN
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types,
            errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error,
                  traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond')
            AS started_at, o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.suspicion, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds,
            o.backoff, o.tags, o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.slots,
            o.progress, coalesce(f.message, o.message) AS message, f.error_type, f.error, f.traceback, f.end_reason,
            f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms,
            attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload,
            result, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule,
            scheduled_for, schedule_id, progress, message, error_type, error, traceback, end_reason, details,
            keep_class)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, suspicion > 0, state, attempt_state, queue, job, tenant, payload, result,
            expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule,
            scheduled_for, schedule_id, progress, message, error_type, error, traceback, end_reason, detail,
            CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k
                WHERE k.job = ended.job AND k.state = ended.state),
                (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = ended.state), 'standard')
                    ELSE 'standard' END
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.state END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT array_agg(id) AS ids, array_agg((id, tenant, job, key, rota.after(clock, key_seconds))::rota.ended_key)
        FILTER (WHERE key IS NOT NULL) AS keys
    INTO done FROM ended;
    IF done.keys IS NOT NULL THEN
        PERFORM rota.release_keys(done.keys, clock);
    END IF;
    RETURN QUERY SELECT unnest(done.ids);
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- The run goes on: a retry, a snooze, or a body that was cut off by a shutdown. The attempt becomes a row of its
-- own, and its error gets its group. A delay of NULL keeps the run's place in the line; one that adds up to no
-- instant is cut. A run that somebody asked to cancel meanwhile ends here. A run that took its own process with it
-- (lost), or that a shutdown cut off while it was isolated, is isolated again; any other end says that it is
-- harmless. One that is put off gives its slots back, but keeps its turn in a sequence; a rate counts every start, so
-- that the next one waits for its tokens, also after a shutdown.
-- Called by: settle_kept_ends, sql/runs/requeue.sql, time_out_run.
-- Locks: rows.
CREATE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL,
    tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    holds   text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types,
            errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), owned AS MATERIALIZED (
        SELECT f.*, o.started_at, o.suspicion, o.job, o.queue, o.tenant, o.limit_keys, o.slots,
            -- What it keeps, and whether it is taken out of the line.
            coalesce(f.delay, 0) > 0 AS is_put_off, CASE WHEN f.delay > 0
                THEN nullif(ARRAY(SELECT k FROM unnest(o.slots) k WHERE k LIKE 's%'), '{}') ELSE o.slots END AS kept,
            CASE f.state WHEN 'lost' THEN smallint '2' WHEN 'cancelled' THEN o.suspicion ELSE smallint '0' END AS doubt
        FROM input f
        JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), was AS MATERIALIZED (
        SELECT w.*, g.id AS error_group, g.file, g.line, g.function
        FROM owned w CROSS JOIN LATERAL rota.group_error(w.job, w.error_type, w.error, w.traceback) g
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.is_put_off THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.is_put_off THEN rota.after(clock, least(w.delay, 3153600000)) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL,
            suspicion = w.doubt,
            held_by = rota.hold_of(NOT w.is_put_off, CASE WHEN w.limit_keys IS NOT NULL
                THEN rota.missing_keys(w.limit_keys, w.kept) END, w.doubt),
            slots = w.kept,
            limit_key = CASE WHEN w.limit_keys IS NOT NULL THEN (rota.missing_keys(w.limit_keys, w.kept))[1] END,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            error_group = coalesce(w.error_group, o.error_group), message = coalesce(w.message, o.message),
            progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.held_by, o.run_at, w.slots, w.delay
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM again a CROSS JOIN LATERAL unnest(a.slots) k
        WHERE a.slots IS NOT NULL AND a.delay > 0 AND k NOT LIKE 's%' GROUP BY k
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms,
            is_redelivery, is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker,
            greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.suspicion > 0, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback,
            w.detail
        FROM was w JOIN again a ON a.id = w.id
    ), noted AS (
        INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, error_type, error, file, line, function)
        SELECT w.error_group, w.job, w.queue, w.id, clock, left(w.error_type, 200),
            left(coalesce(w.error, ''), 1000), w.file, w.line, w.function
        FROM was w JOIN again a ON a.id = w.id WHERE w.error_group IS NOT NULL
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued' AND held_by IS NULL),
        array_agg(DISTINCT held_by), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, holds, soonest FROM again;
    PERFORM rota.wake_for(touched, holds, soonest - clock);
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors,
               array_agg(f.traceback) AS tracebacks, array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END)
                          FROM unnest(b.attempt_states) s), b.reasons, b.messages, b.error_types, b.errors,
                              b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;

-- An attempt that exceeded its timeout in a process that cannot say so any more: its watchdog does. Nothing is known of
-- the job's backoff here: the run is tried again at once, by another process, or ends. It is counted here, too: the
-- process that would is about to end. Where somebody holds the run, the end is kept.
-- Called by: sql/runs/time_out.sql.
CREATE FUNCTION rota.time_out_run(for_worker bigint, of_run bigint, of_attempt integer, timeout real) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    error   constant text := format('attempt exceeded its timeout of %s s', timeout);
    took    constant real[] := ARRAY[timeout * 1000];
    run     record;
    is_ours boolean;
BEGIN
    SELECT o.job, o.queue, o.tenant, o.attempts_used + 1 >= o.max_attempts AS is_last INTO run
    FROM rota.open_runs o WHERE o.id = of_run AND o.attempt = of_attempt AND o.worker = for_worker;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    BEGIN
        is_ours := CASE WHEN run.is_last
            THEN EXISTS (SELECT FROM rota.finish_runs(for_worker, ARRAY[of_run], ARRAY[of_attempt], took, NULL,
                ARRAY['failed'], ARRAY['timed_out'], ARRAY['attempts used up'], NULL, ARRAY['AttemptTimeout'],
                ARRAY[error]))
            ELSE EXISTS (SELECT FROM rota.requeue_runs(for_worker, ARRAY[of_run], ARRAY[of_attempt], took,
                ARRAY['timed_out'], ARRAY[0::double precision], ARRAY[true], NULL, ARRAY['AttemptTimeout'],
                ARRAY[error])) END;
    EXCEPTION WHEN lock_not_available THEN
        is_ours := EXISTS (SELECT FROM rota.keep_ends(for_worker, ARRAY[of_run], ARRAY[of_attempt], took,
            ARRAY['timed_out'], CASE WHEN run.is_last THEN ARRAY['failed'] END, ARRAY['attempts used up'], NULL, NULL,
            ARRAY['AttemptTimeout'], ARRAY[error], NULL, NULL, ARRAY[0::double precision], ARRAY[true], NULL, NULL));
    END;
    IF is_ours THEN
        PERFORM rota.count_attempt(run.job, run.queue, 'timed_out', timeout * 1000),
            rota.log_failure(of_run, of_attempt, for_worker, run.job, run.tenant, 'AttemptTimeout', error);
    END IF;
END $$;

-- Ends waiting runs that nobody has locked: cancelled, expired in place, or never run. What has expired ends as
-- that, at the time it did, whoever ends it for whatever reason. In an earlier week there may be no partition, and
-- making one locks the history until the caller commits: then it ends now. Limits get back the slots of what was
-- ready.
-- Called by: many.
CREATE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL,
    failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
    week  timestamptz := date_trunc('week', clock AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    done  record;
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD'))
        IS NULL;
    WITH gone AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*, coalesce(o.expires_at <= clock, false) AS is_expired
    ), ended AS (
        SELECT g.*, CASE WHEN is_expired AND least(greatest(expires_at, created_at), clock) >= week
                         THEN least(greatest(expires_at, created_at), clock) ELSE clock END AS ended_at,
               CASE WHEN is_expired THEN 'cancelled' ELSE new_state END AS ended_as
        FROM gone g
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, message, error_type, error, end_reason, keep_class)
        SELECT id, created_at, run_at, ended_at, attempt, attempts_used,
            max_attempts, priority, suspicion > 0, ended_as, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, message,
            CASE WHEN NOT is_expired THEN failure_type END,
            coalesce(CASE WHEN NOT is_expired THEN failure END, last_error),
            CASE WHEN is_expired THEN 'expired' ELSE reason END, rota.keep_class_of(job, ended_as)
        FROM ended ORDER BY schedule_id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.ended_as END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT array_agg(id) AS ids, array_agg((id, tenant, job, key, rota.after(ended_at, key_seconds))::rota.ended_key)
        FILTER (WHERE key IS NOT NULL) AS keys
    INTO done FROM ended;
    IF done.keys IS NOT NULL THEN
        PERFORM rota.release_keys(done.keys, clock);
    END IF;
    RETURN QUERY SELECT unnest(done.ids);
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- Keeps ends that could not be written, because somebody's transaction held what they change: those of this worker's
-- runs and attempts. It only appends. Returns which are kept; the others came too late.
-- Called by: sql/runs/keep_ends.sql, time_out_run.
CREATE FUNCTION rota.keep_ends(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[], attempt_states text[], states text[],
    end_reasons text[], results jsonb[], messages text[], error_types text[], errors text[], tracebacks text[],
    details jsonb[], delays double precision[], spent boolean[], intakes integer[], signatures integer[]
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    INSERT INTO rota.kept_ends (run_id, attempt, worker, duration_ms, attempt_state, state, end_reason, result, message,
        error_type, error, traceback, details, delay_seconds, is_spent, intake, signature)
    SELECT f.id, f.attempt, for_worker, f.duration_ms, f.attempt_state, f.state, f.end_reason, f.result, f.message,
        f.error_type, f.error, f.traceback, f.detail, f.delay, f.is_spent, f.intake, f.signature
    FROM unnest(ids, attempts, durations_ms, attempt_states, states, end_reasons, results, messages, error_types,
            errors, tracebacks, details, delays, spent, intakes, signatures)
        AS f (id, attempt, duration_ms, attempt_state, state, end_reason, result, message, error_type, error, traceback,
            detail, delay, is_spent, intake, signature)
    WHERE EXISTS (SELECT FROM rota.open_runs o
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker)
    ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT k.run_id FROM rota.kept_ends k WHERE k.run_id = ANY (ids) AND k.worker = for_worker;
END $$;

-- Writes kept ends whose runs nobody holds any more, each by itself: one that still waits for something keeps no other
-- from being written, and a pass is over after a second. One that its run does not have any more is dropped; so is
-- one that cannot be stored, and its run is rescued. Returns how many are left.
-- Called by: sql/runs/settle_kept_ends.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_kept_ends(max_ends integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
DECLARE
    began timestamptz := clock_timestamp();
    clock timestamptz := rota.now();
    one   rota.kept_ends;
    is_free boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.kept_ends) THEN
        RETURN 0;
    END IF;
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD'))
        IS NULL;
    -- In no order, so that those that have to wait longer are not always the first.
    FOR one IN SELECT k.* FROM rota.kept_ends k ORDER BY random() LIMIT max_ends FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN clock_timestamp() > began + interval '1 second';
        PERFORM FROM rota.open_runs o WHERE o.id = one.run_id AND o.attempt = one.attempt AND o.worker = one.worker
            FOR UPDATE SKIP LOCKED;
        is_free := FOUND;
        CONTINUE WHEN NOT is_free AND EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = one.run_id AND o.attempt = one.attempt AND o.worker = one.worker);
        BEGIN
            IF NOT is_free THEN
                NULL;  -- it is over, or somebody else's
            ELSIF one.attempt_state = 'unstarted' THEN
                PERFORM rota.hand_back_runs(one.worker, ARRAY[one.run_id], ARRAY[one.attempt]);
            ELSIF one.intake IS NOT NULL THEN
                PERFORM rota.refuse_runs(one.worker, ARRAY[one.run_id], ARRAY[one.attempt], ARRAY[one.duration_ms],
                    ARRAY[one.intake], ARRAY[one.signature], ARRAY[one.error_type], ARRAY[one.error],
                    ARRAY[one.traceback]);
            ELSIF one.state IS NULL THEN
                PERFORM rota.requeue_runs(one.worker, ARRAY[one.run_id], ARRAY[one.attempt], ARRAY[one.duration_ms],
                    ARRAY[one.attempt_state], ARRAY[one.delay_seconds], ARRAY[one.is_spent], ARRAY[one.message],
                    ARRAY[one.error_type], ARRAY[one.error], ARRAY[one.traceback], ARRAY[one.details]);
            ELSE
                PERFORM rota.finish_runs(one.worker, ARRAY[one.run_id], ARRAY[one.attempt], ARRAY[one.duration_ms],
                    ARRAY[one.result], ARRAY[one.state], ARRAY[one.attempt_state], ARRAY[one.end_reason],
                    ARRAY[one.message], ARRAY[one.error_type], ARRAY[one.error], ARRAY[one.traceback],
                    ARRAY[one.details]);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                CONTINUE;
            WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
                RAISE WARNING 'the end of run % could not be stored: %', one.run_id, SQLERRM;
        END;
        DELETE FROM rota.kept_ends k
        WHERE k.run_id = one.run_id AND k.attempt = one.attempt AND k.worker = one.worker;
    END LOOP;
    RETURN (SELECT count(*) FROM rota.kept_ends);
END $$;
