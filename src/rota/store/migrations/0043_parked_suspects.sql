-- A suspect whose job no live worker knows is parked like any other run, so that it fails in the end; freed, it is a suspect again.
-- The rest as before (0026, 0028).
CREATE OR REPLACE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    unknown text[] := ARRAY(
        SELECT DISTINCT d.job FROM rota.depths d
        WHERE d.queued > d.held
          AND NOT EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND d.job = ANY (w.jobs)));
    parked   integer;
    suspects integer;
BEGIN
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                              WHERE q.held_by = 'suspect'
                                AND NOT EXISTS (SELECT FROM rota.workers w WHERE w.state = 'live' AND q.job = ANY (w.jobs))
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS suspects = ROW_COUNT;
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT rota.try_lock('depths') THEN
        RETURN suspects;
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
    RETURN parked + suspects;
END $$;

CREATE OR REPLACE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live');
    touched text[];
    freed   integer;
BEGIN
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.is_suspect THEN 'suspect' END, held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                                  WHERE q.held_by = 'no_worker' AND q.job = ANY (known)
                                  LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    RETURN freed;
END $$;

-- As before (0037), but a worker that lives has counted what it writes: a suspect that took only its own process with it.
CREATE OR REPLACE FUNCTION rota.count_lost_end() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(NEW.job, NEW.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = NEW.worker AND w.state IN ('live', 'stopping'));
    RETURN NULL;
END $$;

-- Plans that are kept from when the table was empty: what is looked up here is looked up by its index, while the search for lost runs
-- (0033) reads all that is ready, once.
ALTER FUNCTION rota.lost_runs SET enable_seqscan = off;
ALTER FUNCTION rota.lost_run_ids SET enable_seqscan = on;
ALTER FUNCTION rota.rescue_runs SET enable_seqscan = off;
