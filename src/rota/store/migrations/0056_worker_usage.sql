-- With each beat a worker says how much memory its process and those that it started hold, and how much processor time they have
-- used; what it used since the beat before is kept beside it, so that one look tells how busy it is.
ALTER TABLE rota.workers
    ADD COLUMN memory_bytes bigint,
    ADD COLUMN cpu_seconds double precision,
    ADD COLUMN cpu_cores real,
    ADD COLUMN is_to_hurry boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN rota.workers.memory_bytes IS 'resident memory of its process and its children; NULL: not measured';
COMMENT ON COLUMN rota.workers.cpu_seconds IS 'processor time of its process and its children since they started';
COMMENT ON COLUMN rota.workers.cpu_cores IS 'cores in use between its last two beats';
COMMENT ON COLUMN rota.workers.is_to_hurry IS 'told to stop within its shutdown_seconds, and not to wait for what runs longer';
SELECT rota.guard_values('rota.workers', false);

DROP FUNCTION rota.beat(bigint, boolean, double precision, double precision, integer, text);
CREATE FUNCTION rota.beat(
    for_worker bigint, stuck boolean DEFAULT false, claimed_seconds double precision DEFAULT NULL,
    finished_seconds double precision DEFAULT NULL, errors integer DEFAULT 0, trouble text DEFAULT NULL,
    memory_bytes bigint DEFAULT NULL, cpu_seconds double precision DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.workers w
    SET heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp() + make_interval(secs => w.lease_seconds),
        is_stuck = stuck,
        claimed_at = coalesce(clock_timestamp() - make_interval(secs => claimed_seconds), w.claimed_at),
        finished_at = coalesce(clock_timestamp() - make_interval(secs => finished_seconds), w.finished_at),
        errors = beat.errors, trouble = beat.trouble, memory_bytes = beat.memory_bytes, cpu_seconds = beat.cpu_seconds,
        -- Less than before: a child has gone with what it had used.
        cpu_cores = CASE WHEN beat.cpu_seconds >= w.cpu_seconds
                         THEN (beat.cpu_seconds - w.cpu_seconds) / greatest(extract(epoch FROM clock_timestamp() - w.heartbeat_at), 0.1) END
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM rota.batch_starts b
    WHERE b.worker = for_worker AND b.batch < (SELECT max(n.batch) FROM rota.batch_starts n WHERE n.worker = for_worker);
    RETURN true;
END $$;

-- As before (0033). At once: it stops as at a SIGTERM; what runs longer than its shutdown_seconds is cut off and goes back.
DROP FUNCTION rota.drain_worker(bigint, boolean, text, text);
CREATE FUNCTION rota.drain_worker(
    worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL, at_once boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := coalesce(drain_worker.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
    is_stopping boolean := drain_worker.stop OR drain_worker.at_once;
BEGIN
    IF was_draining AND (found.is_to_hurry OR NOT drain_worker.at_once) AND (found.is_to_stop OR NOT is_stopping) THEN
        RAISE EXCEPTION 'worker % is already draining', drain_worker.worker USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()), drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = is_stopping, is_to_hurry = drain_worker.at_once
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop, 'is_to_hurry', found.is_to_hurry),
        jsonb_build_object('is_draining', true, 'is_to_stop', is_stopping, 'is_to_hurry', drain_worker.at_once), drain_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;

CREATE OR REPLACE FUNCTION rota.resume_worker(worker bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.workers := rota.lock_live_worker(resume_worker.worker);
BEGIN
    IF found.drain_requested_at IS NULL THEN
        RAISE EXCEPTION 'worker % is not draining', resume_worker.worker USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.workers w SET drain_requested_at = NULL, drain_requested_by = NULL, drain_reason = NULL, drain_seen_at = NULL,
        is_to_stop = false, is_to_hurry = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(resume_worker.actor, 'worker.resumed', 'worker', found.id::text,
        jsonb_build_object('is_draining', true, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', false, 'is_to_stop', false), resume_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;
