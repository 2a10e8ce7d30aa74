-- What workers do for all, every few seconds: `promote_runs` puts what is due in line, `expire_runs` ends what is
-- past its deadline, `settle_cancels` carries out requests that nobody saw, `park_unknown_runs`, `free_known_runs`
-- and `fail_unknown_runs` deal with jobs that no worker knows, `sweep` clears leftovers.

-- scheduled -> queued, in small commits, so that a million due at once do not arrive in one transaction. One under a
-- limit waits for its admission. Returns how many, and the seconds until the next one is due or a pause ends (NULL:
-- none; an infinite time is nobody's next one). What is due and held by somebody is looked at again in a moment, not
-- at once.
-- Called by: sql/runs/promote.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    holds   text[];
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp(),
            held_by = rota.hold_of(true, CASE WHEN o.limit_keys IS NOT NULL
                THEN rota.missing_keys(o.limit_keys, o.slots) END, o.suspicion),
            limit_key = CASE WHEN o.limit_keys IS NOT NULL THEN (rota.missing_keys(o.limit_keys, o.slots))[1] END
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO promoted, touched, holds FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake_for(touched, holds);
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future AND o.run_at > clock AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1;
    IF promoted < max_runs AND EXISTS (SELECT FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock) THEN
        next_due_seconds := least(next_due_seconds, 0.25);
    END IF;
    IF EXISTS (SELECT FROM rota.queues q WHERE q.paused_until IS NOT NULL) THEN
        next_due_seconds := least(next_due_seconds, rota.end_pauses(clock));
    END IF;
END $$;

-- Ends what has expired, the first to expire first, so many at most.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.expire_runs(max_runs integer) RETURNS integer LANGUAGE sql VOLATILE SET enable_seqscan = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
    SELECT count(*)::integer FROM rota.end_waiting_runs(ARRAY(
        SELECT o.id FROM rota.open_runs o WHERE o.expires_at <= rota.now() AND o.state <> 'running'
        ORDER BY o.expires_at LIMIT max_runs FOR UPDATE SKIP LOCKED), 'cancelled', 'expired')
$$;

-- Before somebody acts on a run: ends it if it has expired. Returns whether it did; NULL: it has not expired. One that
-- somebody holds is left to upkeep.
-- Called by: cancel_run, delete_run, retry_run, take_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_expired(run_id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    run record;
BEGIN
    SELECT o.state, o.expires_at INTO run FROM rota.open_runs o WHERE o.id = settle_expired.run_id;
    IF run.state IS NULL OR NOT rota.is_over(run.state, run.expires_at) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM rota.open_runs o WHERE o.id = settle_expired.run_id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.open_runs o WHERE o.id = settle_expired.run_id) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.end_waiting_runs(ARRAY[settle_expired.run_id], 'cancelled', 'expired');
    RETURN true;
END $$;

-- Open runs by queue and job, counted by reading all of them. What has expired and was not swept yet counts as
-- expired.
-- Called by: count_depths, kept_depths, read_depths.
CREATE FUNCTION rota.count_open_runs() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint,
    oldest_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked'), count(*) FILTER (WHERE o.state = 'scheduled'),
           count(*) FILTER (WHERE o.state = 'queued'),
           count(*) FILTER (WHERE o.state = 'queued' AND o.held_by IS NOT NULL),
           count(*) FILTER (WHERE o.state = 'running'), count(*) FILTER (WHERE o.state = 'expired'),
           min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL)
    FROM (SELECT w.queue, w.job, w.held_by, w.enqueued_at,
                 CASE WHEN w.expires_at IS NULL OR w.expires_at > (SELECT rota.now())
                     OR (w.state = 'running' AND w.started_at < w.expires_at) THEN w.state ELSE 'expired' END AS state
          FROM rota.open_runs w) o
    GROUP BY o.queue, o.job
$$;

-- A request that was not committed yet when its attempt ended was seen by nobody: carry it out on the run that waits
-- again, or hand it to the attempt that runs now.
-- Called by: sweep.
-- Locks: rows.
CREATE FUNCTION rota.settle_cancels() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    late record;
BEGIN
    FOR late IN
        SELECT c.run_id, o.state, o.worker, o.attempt,
            'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS why
        FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
        WHERE o.state <> 'running' OR o.attempt > c.attempt
        FOR UPDATE OF c, o SKIP LOCKED
    LOOP
        IF late.state = 'running' THEN
            UPDATE rota.cancel_requests SET worker = late.worker, attempt = late.attempt WHERE run_id = late.run_id;
            PERFORM rota.call_workers('cancel ' || late.worker);
        ELSE
            PERFORM rota.end_waiting_runs(ARRAY[late.run_id], 'cancelled', late.why);
        END IF;
    END LOOP;
END $$;

-- Why a job starts nothing: somebody disabled it, or no code has it any more. NULL: it does.
-- Called by: note_skipped_inits, sql/jobs/plan.sql, sql/schedules/read_due.sql.
CREATE FUNCTION rota.job_refusal(job text) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN NOT j.is_enabled THEN 'job_disabled' WHEN j.name IS NULL OR j.deleted_from_code_at IS NOT NULL
        THEN 'job_deleted' END
    FROM (SELECT 1) one LEFT JOIN rota.jobs j ON j.name = job_refusal.job
$$;

-- What no live worker knows leaves the claim's way, and comes back with a worker that does (free_known_runs). The
-- counts by job say whether there is anything to look for, one worker looks, and what is found is named by its
-- place, as in a claim (docs/decisions/0005-plan-pinning.md). A suspect is parked like any other run, so that it
-- fails in the end; freed, it is a suspect again. A run whose job only sleeping workers know waits for them. What is
-- parked gives its slots back.
-- Called by: postgres/upkeep.py.
-- Locks: "depths" if it is free, rows that nobody else has locked.
CREATE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w
        WHERE w.state = 'live' OR rota.is_asleep(w));
    unknown text[] := ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.queued > d.held AND d.job <> ALL (known));
    parked   integer;
    suspects integer;
BEGIN
    WITH chosen AS MATERIALIZED (
        SELECT q.id, q.slots FROM rota.open_runs q WHERE q.held_by = 'suspect' AND q.job <> ALL (known)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), parked AS (
        UPDATE rota.open_runs o SET held_by = rota.hold_of(true, NULL, o.suspicion, 'no_worker'), held_at = rota.now(),
            slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c))
        RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO suspects FROM parked;
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT rota.try_lock('depths') THEN
        RETURN suspects;
    END IF;
    WITH chosen AS MATERIALIZED (
        SELECT q.id, q.slots FROM rota.open_runs q
        WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), parked AS (
        UPDATE rota.open_runs o SET held_by = rota.hold_of(true, NULL, o.suspicion, 'no_worker'), held_at = rota.now(),
            slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c))
        RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO parked FROM parked;
    IF parked < max_runs THEN
        -- No more are left until the next count says so.
        UPDATE rota.depths d SET held = d.queued WHERE d.job = ANY (unknown) AND d.queued > d.held;
    END IF;
    RETURN parked + suspects;
END $$;

-- What was parked comes back when a live worker knows its job. One under a limit waits for its admission next, and a
-- suspect for its isolation after that.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live');
    touched text[];
    holds   text[];
    freed   integer;
BEGIN
    known := known || ARRAY(SELECT n.alias FROM rota.job_names n WHERE n.job = ANY (known));
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = rota.hold_of(true, o.limit_keys, o.suspicion), limit_key = o.limit_keys[1], held_at = NULL,
            enqueued_at = clock_timestamp(),
            -- One that was being ended when its job was renamed has the old name still.
            job = coalesce((SELECT n.job FROM rota.job_names n WHERE n.alias = o.job), o.job)
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                                  WHERE q.held_by = 'no_worker' AND q.job = ANY (known)
                                  LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO freed, touched, holds FROM freed;
    PERFORM rota.wake_for(touched, holds);
    RETURN freed;
END $$;

-- Fails what was parked for longer than this: nobody will come. Counted from the parking and not from the enqueue:
-- an old backlog must not fail because its only worker restarts.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.fail_unknown_runs(after_seconds double precision, max_runs integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
    SELECT rota.end_waiting_runs(
        ARRAY(SELECT o.id FROM rota.open_runs o
              WHERE o.held_by = 'no_worker' AND o.job = ANY (ARRAY(SELECT DISTINCT d.job FROM rota.depths d
                  WHERE d.held > 0))
                AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
              LIMIT max_runs FOR UPDATE SKIP LOCKED),
        'failed', 'unknown job', 'JobUnavailable', format('no live worker knew the job for %s s', after_seconds))
$$;

-- Small leftovers: keys past their period, requests for attempts that are over, workers that nobody will ask about,
-- marks older than any history.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.sweep(max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    removed integer;
    n       integer;
BEGIN
    PERFORM rota.settle_key_releases(max_rows);
    DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(
        SELECT e.ctid FROM rota.keys e WHERE e.expires_at <= rota.now() ORDER BY e.expires_at LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM rota.settle_cancels();
    DELETE FROM rota.cancel_requests r WHERE r.ctid = ANY (ARRAY(
        SELECT c.ctid FROM rota.cancel_requests c
        WHERE NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = c.run_id AND o.attempt = c.attempt
            AND o.state = 'running')
          -- One whose run waits again is settled first, above.
          AND NOT EXISTS (SELECT FROM rota.open_runs o
              WHERE o.id = c.run_id AND (o.state <> 'running' OR o.attempt > c.attempt))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.workers w WHERE w.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.workers o
        WHERE o.state IN ('gone', 'lost') AND o.ended_at < clock_timestamp() - interval '7 days'
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.batch_starts s WHERE s.ctid = ANY (ARRAY(
        SELECT b.ctid FROM rota.batch_starts b
        WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = b.worker
                          AND (w.ended_at IS NULL OR w.ended_at > clock_timestamp() - 20 *
                              make_interval(secs => w.lease_seconds)))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN removed + n;
END $$;
