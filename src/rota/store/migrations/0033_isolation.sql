-- The price of suspicion is paid by the suspect alone. A run whose worker was lost goes back to normal work if others were lost with
-- it and it has attempts to spare. Else it waits, held as a suspect, until some worker isolates it: in a process of its own beside the
-- normal slots, or, where its handler cannot run in one, in the worker's process, by one worker of the fleet at a time.

-- What it isolates, or isolated last: true only while that attempt runs (isolating_of).
ALTER TABLE rota.workers DROP COLUMN is_solo,
    ADD COLUMN isolating_run bigint,
    ADD COLUMN isolating_attempt integer,
    ADD COLUMN is_isolating_inline boolean NOT NULL DEFAULT false;

-- The run that a worker isolates at this moment.
CREATE FUNCTION rota.isolating_of(w rota.workers) RETURNS bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = w.isolating_run AND o.attempt = w.isolating_attempt AND o.worker = w.id
$$;

CREATE FUNCTION rota.is_isolated(o rota.open_runs) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM rota.workers w WHERE w.id = o.worker AND w.isolating_run = o.id AND w.isolating_attempt = o.attempt)
$$;

-- Whether a suspect may be isolated in its worker's own process: nobody else does so. Of two that ask at once one is told to ask again.
INSERT INTO rota.locks (name) VALUES ('isolation');
CREATE FUNCTION rota.may_isolate_inline(for_worker bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    RETURN rota.try_lock('isolation') AND NOT EXISTS (
        SELECT FROM rota.workers w
        WHERE w.is_isolating_inline AND w.id <> for_worker AND w.state IN ('live', 'stopping') AND rota.isolating_of(w) IS NOT NULL);
END $$;

-- One suspect for a worker that isolates none. inline_jobs are those that this worker can only run in its own process. Asked again
-- before the attempt has ended, it answers the same run: the first answer may have been lost.
DROP FUNCTION rota.claim_suspect(bigint, text[], text[]);
CREATE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[], inline_jobs text[] DEFAULT '{}')
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    chosen bigint;
BEGIN
    PERFORM rota.check_worker(for_worker);
    SELECT rota.isolating_of(w) INTO chosen FROM rota.workers w WHERE w.id = for_worker;
    IF chosen IS NULL THEN
        known_jobs := rota.enabled_jobs(known_jobs);
        IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect' AND o.job = ANY (inline_jobs))
           AND NOT rota.may_isolate_inline(for_worker) THEN
            known_jobs := ARRAY(SELECT k FROM unnest(known_jobs) k WHERE k <> ALL (inline_jobs));
        END IF;
        UPDATE rota.open_runs o
        SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, held_by = NULL
        WHERE o.id = (
            SELECT w.id FROM rota.open_runs w
            WHERE w.held_by = 'suspect' AND w.state = 'queued' AND w.job = ANY (known_jobs)
              AND (from_queues = '{}' OR w.queue = ANY (from_queues))
              AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND s.is_paused)
            ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING o.id INTO chosen;
        IF chosen IS NULL THEN
            RETURN;
        END IF;
        UPDATE rota.workers w SET isolating_run = o.id, isolating_attempt = o.attempt, is_isolating_inline = o.job = ANY (inline_jobs)
        FROM rota.open_runs o WHERE o.id = chosen AND w.id = for_worker;
    END IF;
    RETURN QUERY
    SELECT o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, o.started_at,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END
    FROM rota.open_runs o WHERE o.id = chosen;
END $$;

-- Claimed and not started: back to its place in the line, no attempt spent. What was isolated waits to be isolated.
CREATE OR REPLACE FUNCTION rota.hand_back_runs(for_worker bigint, ids bigint[], attempts integer[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE rota.open_runs o
    SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL,
        held_by = CASE WHEN o.is_suspect AND rota.is_isolated(o) THEN 'suspect' END
    FROM unnest(ids, attempts) AS h (id, attempt)
    WHERE o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.worker = for_worker
    RETURNING o.id;
    -- Somebody asked to cancel it while it was claimed: its next attempt would not know.
    PERFORM rota.end_waiting_runs(ARRAY[c.run_id], 'cancelled', 'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, ''))
    FROM unnest(ids, attempts) AS h (id, attempt)
    JOIN rota.cancel_requests c ON c.run_id = h.id AND c.attempt = h.attempt
    JOIN rota.open_runs o ON o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.state = 'queued';
END $$;

-- As before (0029). A run that took its own process with it (lost), or that a shutdown cut off while it was isolated, is isolated
-- again; any other end says that it is harmless.
CREATE OR REPLACE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL,
    details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
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
            run_at = CASE WHEN w.delay > 0 THEN rota.after(clock, least(w.delay, 3153600000)) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL,
            is_suspect = w.state = 'lost' OR w.state = 'cancelled' AND o.is_suspect,
            held_by = CASE WHEN w.state = 'lost' OR w.state = 'cancelled' AND w.is_suspect AND rota.is_isolated(o) THEN 'suspect' END,
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

CREATE OR REPLACE FUNCTION rota.drain_worker(worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := coalesce(drain_worker.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
BEGIN
    IF was_draining AND (found.is_to_stop OR NOT drain_worker.stop) THEN
        RAISE EXCEPTION 'worker % is already draining', drain_worker.worker USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()), drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = drain_worker.stop
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', true, 'is_to_stop', drain_worker.stop), drain_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;

-- Declares workers lost whose lease ran out, before any of their rows is touched. From then on isolating_run says what it isolated
-- when it was lost.
CREATE OR REPLACE FUNCTION rota.mark_lost_workers() RETURNS TABLE (worker bigint, name text) LANGUAGE sql VOLATILE SET jit = off AS $$
    UPDATE rota.workers w SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false, isolating_run = rota.isolating_of(w)
    WHERE w.id IN (SELECT l.id FROM rota.workers l
                   WHERE l.state IN ('live', 'stopping') AND l.lease_expires_at <= clock_timestamp()
                   FOR UPDATE SKIP LOCKED)
    RETURNING w.id, w.name
$$;

-- As before (0006, 0028); all runs of a worker come together, as who was lost with it counts.
CREATE OR REPLACE FUNCTION rota.lost_run_ids(max_runs integer, everywhere boolean) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    dead bigint[] := ARRAY(SELECT w.id FROM rota.workers w
        WHERE w.state = 'lost' AND w.ended_at > clock_timestamp() - 10 * make_interval(secs => w.lease_seconds));
BEGIN
    IF NOT everywhere AND dead = '{}' OR NOT rota.try_lock('rescue') THEN
        RETURN;
    ELSIF everywhere THEN
        RETURN QUERY SELECT o.id FROM rota.open_runs o
            WHERE o.is_ready AND o.worker NOT IN (SELECT w.id FROM rota.workers w WHERE w.state IN ('live', 'stopping'))
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    ELSE
        RETURN QUERY SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.worker = ANY (dead)
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    END IF;
END $$;

-- What is known of lost runs before any of them is touched. is_shared: others had started on the same worker. is_freed: the worker
-- ran a known suspect in its own process, which is charged alone. is_harmless: it cannot take a process with it.
CREATE FUNCTION rota.lost_runs(max_runs integer, everywhere boolean) RETURNS TABLE (
    id bigint, attempt integer, worker_name text, is_started boolean, is_shared boolean, is_freed boolean, is_harmless boolean, doubts bigint
) LANGUAGE sql VOLATILE SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT o.id, o.attempt, coalesce(w.name, 'unknown'), s.is_started,
           count(*) FILTER (WHERE s.is_started) OVER (PARTITION BY o.worker) > 1,
           coalesce(w.is_isolating_inline AND w.state = 'lost' AND w.isolating_run <> o.id, false),
           coalesce(j.kind = 'sql' OR j.is_system, false),
           CASE WHEN o.is_suspect THEN (
               SELECT count(*) FROM rota.past_attempts p
               WHERE p.run_id = o.id AND p.finished_at >= o.created_at AND p.state = 'lost' AND NOT p.is_spent AND p.error_type = 'SharedLoss')
           ELSE 0 END
    FROM rota.lost_run_ids(max_runs, everywhere) AS l (id)
    JOIN rota.open_runs o ON o.id = l.id
    LEFT JOIN rota.workers w ON w.id = o.worker
    LEFT JOIN rota.jobs j ON j.name = o.job
    CROSS JOIN LATERAL (SELECT coalesce(o.claim_batch, 0) <= coalesce((SELECT max(b.batch) FROM rota.batch_starts b WHERE b.worker = o.worker), 0)
                               AS is_started) s
$$;

-- Takes back the runs of workers that are not live. It asks by rows, again and again, because a claim that was under way when its
-- worker was declared lost commits after that. What had not started goes back to its place free; so does what ran beside a suspect in
-- the suspect's process. What had started has lost an attempt, and goes back to normal work if it shared its worker, was not lost
-- before and its next attempt is not its last; else it is held as a suspect, to be isolated. The last attempt is not spent where the
-- loss may be a neighbour's doing: in a batch claimed ahead, of which nobody knows how far it had come, or beside others, unless it
-- has one attempt only. That doubt ends after three times, so that a run that takes whole machines with it ends too.
CREATE OR REPLACE FUNCTION rota.rescue_runs(max_runs integer, everywhere boolean DEFAULT false)
RETURNS TABLE (run_id bigint, attempt integer, worker bigint, decision text) LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    lost    record;
    why     text;
    is_held boolean;
    has_held boolean := false;
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    FOR lost IN
        SELECT o.*, l.worker_name, l.is_shared, l.is_harmless,
               CASE WHEN c.run_id IS NOT NULL THEN 'cancelled'
                    WHEN NOT l.is_started THEN 'handed back'
                    WHEN l.is_freed AND (o.max_attempts > 1 OR o.claim_batch IS NOT NULL) THEN 'freed'
                    WHEN o.attempts_used + 1 < o.max_attempts THEN 'requeued'
                    WHEN (o.claim_batch IS NOT NULL OR l.is_shared AND o.max_attempts > 1) AND l.doubts < 3 THEN 'suspected'
                    ELSE 'failed' END AS decision,
               'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS cancel_reason
        FROM rota.lost_runs(max_runs, everywhere) AS l
        JOIN rota.open_runs o ON o.id = l.id AND o.attempt = l.attempt
        LEFT JOIN rota.cancel_requests c ON c.run_id = o.id AND c.attempt = o.attempt
        WHERE o.state = 'running' AND NOT EXISTS (SELECT FROM rota.workers v WHERE v.id = o.worker AND v.state IN ('live', 'stopping'))
        FOR UPDATE OF o SKIP LOCKED
    LOOP
        run_id := lost.id; attempt := lost.attempt; worker := lost.worker; decision := lost.decision;
        why := format('worker %s (%s) was lost during attempt %s', lost.worker, lost.worker_name, lost.attempt);
        CASE lost.decision
        WHEN 'handed back' THEN
            PERFORM rota.hand_back_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt]);
        WHEN 'cancelled' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['cancelled'], ARRAY['lost'], ARRAY[lost.cancel_reason]);
        WHEN 'failed' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['failed'], ARRAY['lost'], ARRAY['attempts used up'], NULL, ARRAY['WorkerLost'], ARRAY[why]);
        ELSE
            is_held := NOT lost.is_harmless AND lost.decision <> 'freed'
                AND (lost.is_suspect OR NOT lost.is_shared OR lost.attempts_used + 2 >= lost.max_attempts);
            has_held := has_held OR is_held;
            INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_redelivery, is_spent, job, tenant, error_type, error)
            VALUES (lost.id, lost.attempt, 'lost', lost.worker, lost.started_at, clock, lost.is_suspect, lost.decision = 'requeued', lost.job, lost.tenant,
                    CASE lost.decision WHEN 'suspected' THEN 'SharedLoss' ELSE 'WorkerLost' END, why);
            UPDATE rota.open_runs o
            SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, enqueued_at = clock_timestamp(), progress = NULL,
                attempts_used = o.attempts_used + (lost.decision = 'requeued')::integer, is_suspect = true,
                held_by = CASE WHEN is_held THEN 'suspect' END, last_error = why
            WHERE o.id = lost.id;
        END CASE;
        RETURN NEXT;
        IF lost.decision NOT IN ('cancelled', 'failed') THEN
            PERFORM rota.wake(ARRAY[lost.queue]);
        END IF;
    END LOOP;
    IF has_held THEN
        PERFORM pg_notify('rota', 'suspects');
    END IF;
END $$;
