-- What a worker says of itself with each beat: when the database last answered its asking for work, when it last wrote an end, its
-- errors in a row, and what does not get done. A worker with a trouble is live but failing.
ALTER TABLE rota.workers
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN finished_at timestamptz,
    ADD COLUMN errors integer NOT NULL DEFAULT 0,
    ADD COLUMN trouble text;
COMMENT ON COLUMN rota.workers.claimed_at IS 'when it last asked for work and was answered';
COMMENT ON COLUMN rota.workers.finished_at IS 'when it last wrote that attempts had ended';
COMMENT ON COLUMN rota.workers.errors IS 'errors in a row of the loop that has most of them';
COMMENT ON COLUMN rota.workers.trouble IS 'which of its loops does not get its work done, and why';

DROP FUNCTION rota.beat(bigint, boolean);
CREATE FUNCTION rota.beat(
    for_worker bigint, stuck boolean DEFAULT false, claimed_seconds double precision DEFAULT NULL,
    finished_seconds double precision DEFAULT NULL, errors integer DEFAULT 0, trouble text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.workers w
    SET heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp() + make_interval(secs => w.lease_seconds),
        is_stuck = stuck,
        claimed_at = coalesce(clock_timestamp() - make_interval(secs => claimed_seconds), w.claimed_at),
        finished_at = coalesce(clock_timestamp() - make_interval(secs => finished_seconds), w.finished_at),
        errors = beat.errors, trouble = beat.trouble
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM rota.batch_starts b
    WHERE b.worker = for_worker AND b.batch < (SELECT max(n.batch) FROM rota.batch_starts n WHERE n.worker = for_worker);
    RETURN true;
END $$;
