-- Parking looked for runs of jobs that no live worker knows by reading the whole backlog; and where the planner took the table for empty,
-- which is how a queue is usually found, it read it once for each run in it. Now the counts by job say whether there is anything to look
-- for, and what is found is named by its place, as in a claim (docs/decisions/0005-plan-pinning.md).
CREATE OR REPLACE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    unknown text[] := ARRAY(
        SELECT DISTINCT d.job FROM rota.depths d
        WHERE d.queued > d.held
          AND NOT EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND d.job = ANY (w.jobs)));
    parked  integer;
BEGIN
    IF unknown = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                              WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS parked = ROW_COUNT;
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
-- the oldest of each job.
DROP INDEX rota.open_runs_held;
CREATE INDEX open_runs_held ON rota.open_runs (held_by, job, held_at) WHERE held_by IS NOT NULL;

CREATE OR REPLACE FUNCTION rota.fail_unknown_runs(after_seconds double precision, max_runs integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT rota.end_waiting_runs(
        ARRAY(SELECT o.id FROM rota.open_runs o
              WHERE o.held_by = 'no_worker' AND o.job = ANY (ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.held > 0))
                AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
              LIMIT max_runs FOR UPDATE SKIP LOCKED),
        'failed', 'unknown job', 'JobUnavailable', format('no live worker knew the job for %s s', after_seconds))
$$;
