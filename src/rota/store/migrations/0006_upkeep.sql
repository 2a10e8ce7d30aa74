-- What every worker does beside running: promote what is due, rescue what a lost worker
-- held, park what nobody can run, sweep.

-- scheduled -> queued, in small commits, so that a million due at once do not arrive in one
-- transaction. Answers how many, and seconds until the next one is due (NULL: none).
CREATE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp()
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO promoted, touched FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future ORDER BY o.run_at LIMIT 1;
END $$;

-- Declares workers lost whose lease ran out, before any of their rows is touched.
CREATE FUNCTION rota.mark_lost_workers() RETURNS TABLE (worker bigint, name text) LANGUAGE sql VOLATILE AS $$
    UPDATE rota.workers w SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false, is_solo = false
    WHERE w.id IN (SELECT l.id FROM rota.workers l
                   WHERE l.state IN ('live', 'stopping') AND l.lease_expires_at <= clock_timestamp()
                   FOR UPDATE SKIP LOCKED)
    RETURNING w.id, w.name
$$;

-- Takes back the runs of workers that are not live. It asks by rows, again and again, because
-- a claim that was under way when its worker was declared lost commits after that.
-- What had not started goes back to its place free. What had started has lost an attempt, is
-- a suspect from now on and will be claimed alone; without attempts left it ends as failed. Of a
-- batch that was claimed ahead nobody knows how far it had come: there the last attempt is not
-- spent, so that no neighbour of a run that kills its worker ends without having started.
CREATE FUNCTION rota.rescue_runs(max_runs integer, everywhere boolean DEFAULT false)
RETURNS TABLE (run_id bigint, attempt integer, worker bigint, decision text) LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
    lost  record;
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    FOR lost IN
        SELECT o.*, CASE WHEN c.run_id IS NOT NULL THEN 'cancelled'
                         WHEN o.claim_batch > coalesce((SELECT max(b.batch) FROM rota.batch_starts b WHERE b.worker = o.worker), 0) THEN 'handed back'
                         WHEN o.attempts_used + 1 < o.max_attempts THEN 'requeued'
                         WHEN o.claim_batch IS NOT NULL THEN 'suspected'
                         ELSE 'failed' END AS decision,
               'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS cancel_reason,
               w.name AS worker_name
        FROM rota.lost_run_ids(max_runs, everywhere) AS l (id)
        JOIN rota.open_runs o ON o.id = l.id
        LEFT JOIN rota.workers w ON w.id = o.worker
        LEFT JOIN rota.cancel_requests c ON c.run_id = o.id AND c.attempt = o.attempt
        WHERE o.state = 'running' AND NOT EXISTS (SELECT FROM rota.workers v WHERE v.id = o.worker AND v.state IN ('live', 'stopping'))
        FOR UPDATE OF o SKIP LOCKED
    LOOP
        run_id := lost.id; attempt := lost.attempt; worker := lost.worker; decision := lost.decision;
        CASE lost.decision
        WHEN 'handed back' THEN
            PERFORM rota.hand_back_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt]);
        WHEN 'cancelled' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['cancelled'], ARRAY['lost'], ARRAY[lost.cancel_reason]);
        WHEN 'failed' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['failed'], ARRAY['lost'], ARRAY['attempts used up'], NULL, ARRAY['WorkerLost'],
                ARRAY[format('worker %s (%s) was lost during attempt %s', lost.worker, coalesce(lost.worker_name, 'unknown'), lost.attempt)]);
        ELSE
            INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_redelivery, is_spent, job, tenant, error_type, error)
            VALUES (lost.id, lost.attempt, 'lost', lost.worker, lost.started_at, clock, lost.is_suspect, lost.decision = 'requeued', lost.job, lost.tenant,
                    'WorkerLost', format('worker %s (%s) was lost during attempt %s', lost.worker, coalesce(lost.worker_name, 'unknown'), lost.attempt));
            UPDATE rota.open_runs o
            SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, enqueued_at = clock_timestamp(), progress = NULL,
                attempts_used = o.attempts_used + (lost.decision = 'requeued')::integer, is_suspect = true, held_by = 'suspect',
                last_error = format('worker %s (%s) was lost during attempt %s', lost.worker, coalesce(lost.worker_name, 'unknown'), lost.attempt)
            WHERE o.id = lost.id;
        END CASE;
        RETURN NEXT;
        IF lost.decision IN ('handed back', 'requeued', 'suspected') THEN
            PERFORM rota.wake(ARRAY[lost.queue]);
        END IF;
    END LOOP;
END $$;

-- Runs of workers that were lost within ten of their leases; everywhere: any running run whose
-- worker is not live, the net under the rest. There is no index on worker, as it would cost every
-- claim: this reads all that is ready, but only after a loss, and one reader at a time.
CREATE FUNCTION rota.lost_run_ids(max_runs integer, everywhere boolean) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    dead bigint[] := ARRAY(SELECT w.id FROM rota.workers w
        WHERE w.state = 'lost' AND w.ended_at > clock_timestamp() - 10 * make_interval(secs => w.lease_seconds));
BEGIN
    IF NOT everywhere AND dead = '{}' OR NOT pg_try_advisory_xact_lock(hashtextextended('rota.rescue', 0)) THEN
        RETURN;
    ELSIF everywhere THEN
        RETURN QUERY SELECT o.id FROM rota.open_runs o
            WHERE o.is_ready AND o.worker NOT IN (SELECT w.id FROM rota.workers w WHERE w.state IN ('live', 'stopping'))
            LIMIT max_runs;
    ELSE
        RETURN QUERY SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.worker = ANY (dead) LIMIT max_runs;
    END IF;
END $$;

-- What no live worker knows leaves the claim's way, and comes back with a worker that does.
CREATE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    unknown text[];
    parked  integer;
BEGIN
    SELECT array_agg(j.name) INTO unknown FROM rota.jobs j
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND j.name = ANY (w.jobs));
    IF unknown IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.id IN (SELECT q.id FROM rota.open_runs q
                   WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
                   LIMIT max_runs FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS parked = ROW_COUNT;
    RETURN parked;
END $$;

CREATE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    touched text[];
    freed   integer;
BEGIN
    WITH freed AS (
        UPDATE rota.open_runs o SET held_by = NULL, held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.id IN (SELECT q.id FROM rota.open_runs q
                       WHERE q.held_by = 'no_worker'
                         AND q.job IN (SELECT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live')
                       LIMIT max_runs FOR UPDATE SKIP LOCKED)
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    RETURN freed;
END $$;

-- Ends waiting runs that are locked by nobody: cancelled, expired in place, or never run.
CREATE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL, failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            error_type, error, end_reason)
        SELECT id, created_at, run_at, clock, attempt, attempts_used,
            max_attempts, priority, is_suspect, new_state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            failure_type, coalesce(failure, last_error), reason
        FROM ended ORDER BY schedule_id
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

-- Parked for longer than this: nobody will come. Counted from the parking and not from the enqueue:
-- an old backlog must not fail because its only worker restarts.
CREATE FUNCTION rota.fail_unknown_runs(after_seconds double precision, max_runs integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off AS $$
    SELECT rota.end_waiting_runs(
        ARRAY(SELECT o.id FROM rota.open_runs o
              WHERE o.held_by = 'no_worker' AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
              LIMIT max_runs FOR UPDATE SKIP LOCKED),
        'failed', 'unknown job', 'JobUnavailable', format('no live worker knew the job for %s s', after_seconds))
$$;

-- A request that was not committed yet when its attempt ended was seen by nobody: carry it out on
-- the run that waits again, or hand it to the attempt that runs now.
CREATE FUNCTION rota.settle_cancels() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    late record;
BEGIN
    FOR late IN
        SELECT c.run_id, o.state, o.worker, o.attempt, 'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS why
        FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
        WHERE o.state <> 'running' OR o.attempt > c.attempt
        FOR UPDATE OF c SKIP LOCKED
    LOOP
        IF late.state = 'running' THEN
            UPDATE rota.cancel_requests SET worker = late.worker, attempt = late.attempt WHERE run_id = late.run_id;
            PERFORM pg_notify('rota', 'cancel ' || late.worker);
        ELSE
            PERFORM rota.end_waiting_runs(ARRAY[late.run_id], 'cancelled', late.why);
        END IF;
    END LOOP;
END $$;

-- Small leftovers: keys past their period, requests for attempts that are over, workers that
-- nobody will ask about, marks older than any history.
CREATE FUNCTION rota.sweep(max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    removed integer;
    n       integer;
BEGIN
    DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(
        SELECT e.ctid FROM rota.keys e WHERE e.expires_at <= rota.now() ORDER BY e.expires_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM rota.settle_cancels();
    DELETE FROM rota.cancel_requests c
    WHERE NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = c.run_id AND o.attempt = c.attempt AND o.state = 'running');
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.workers w
    WHERE w.state IN ('gone', 'lost') AND w.ended_at < clock_timestamp() - interval '7 days';
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.batch_starts b
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = b.worker
                      AND (w.ended_at IS NULL OR w.ended_at > clock_timestamp() - 20 * make_interval(secs => w.lease_seconds)));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN removed + n;
END $$;

CREATE FUNCTION rota.mark_id() RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.id_marks (id, at) SELECT last_value, rota.now() FROM rota.run_ids
    WHERE NOT EXISTS (SELECT FROM rota.id_marks m WHERE m.at > rota.now() - interval '4 minutes')
    ON CONFLICT DO NOTHING
$$;
