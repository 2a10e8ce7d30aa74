-- Parking looked for runs of jobs that no live worker knows by reading the whole backlog; and where the planner took the table for empty,
-- which is how a queue is usually found, it read it once for each run in it. Now the counts by job say whether there is anything to look
-- for, one worker looks, and what is found is named by its place, as in a claim (docs/decisions/0005-plan-pinning.md).
CREATE OR REPLACE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    unknown text[] := ARRAY(
        SELECT DISTINCT d.job FROM rota.depths d
        WHERE d.queued > d.held
          AND NOT EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND d.job = ANY (w.jobs)));
    parked  integer;
BEGIN
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT pg_try_advisory_xact_lock(hashtextextended('rota.depths', 0)) THEN
        RETURN 0;
    END IF;
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                              WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS parked = ROW_COUNT;
    IF parked < max_runs THEN
        -- No more are left until the next count says so.
        UPDATE rota.depths d SET held = d.queued WHERE d.job = ANY (unknown) AND d.queued > d.held;
    END IF;
    RETURN parked;
END $$;

CREATE OR REPLACE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live');
    touched text[];
    freed   integer;
BEGIN
    WITH freed AS (
        UPDATE rota.open_runs o SET held_by = NULL, held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                                  WHERE q.held_by = 'no_worker' AND q.job = ANY (known)
                                  LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    RETURN freed;
END $$;

-- Parked for longer than this: nobody will come (0006). Every worker asks every few seconds, and a million may be parked: the index leads to
-- the oldest of each job. Its forerunner goes last, as that takes the whole table for itself.
CREATE INDEX open_runs_parked ON rota.open_runs (held_by, job, held_at) WHERE held_by IS NOT NULL;

CREATE OR REPLACE FUNCTION rota.fail_unknown_runs(after_seconds double precision, max_runs integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT rota.end_waiting_runs(
        ARRAY(SELECT o.id FROM rota.open_runs o
              WHERE o.held_by = 'no_worker' AND o.job = ANY (ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.held > 0))
                AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
              LIMIT max_runs FOR UPDATE SKIP LOCKED),
        'failed', 'unknown job', 'JobUnavailable', format('no live worker knew the job for %s s', after_seconds))
$$;

-- As before (0021), but one count that took long, or a clock that was set back, puts the next one off for no longer than five minutes.
CREATE OR REPLACE FUNCTION rota.count_depths(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.depth_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds, least(m.took_ms / 20, 300)))
                      OR m.counted_at > began + interval '1 minute')
       OR NOT pg_try_advisory_xact_lock(hashtextextended('rota.depths', 0)) THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked') AS blocked,
               count(*) FILTER (WHERE o.state = 'scheduled') AS scheduled, count(*) FILTER (WHERE o.state = 'queued') AS queued,
               count(*) FILTER (WHERE o.held_by IS NOT NULL) AS held, count(*) FILTER (WHERE o.state = 'running') AS running,
               min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL) AS oldest_at
        FROM rota.open_runs o GROUP BY o.queue, o.job
    ), gone AS (
        DELETE FROM rota.depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.queue = d.queue AND c.job = d.job)
    )
    INSERT INTO rota.depths AS d (queue, job, blocked, scheduled, queued, held, running, oldest_at)
    SELECT c.queue, c.job, c.blocked, c.scheduled, c.queued, c.held, c.running, c.oldest_at FROM counted c
    ON CONFLICT (queue, job) DO UPDATE SET
        blocked = excluded.blocked, scheduled = excluded.scheduled, queued = excluded.queued, held = excluded.held,
        running = excluded.running, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.oldest_at);
    UPDATE rota.depth_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

DROP INDEX rota.open_runs_held;
ALTER INDEX rota.open_runs_parked RENAME TO open_runs_held;
