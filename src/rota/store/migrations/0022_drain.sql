-- What operators do to workers, and what the audit is asked.

CREATE INDEX audit_at ON rota.audit (at);
CREATE INDEX audit_actor ON rota.audit (actor, id);

-- Draining: a worker is told to claim and tick no more, to finish what it runs, and then to wait or to end.
-- The state stays live, because the release before knows no other word for a worker that renews its lease.

ALTER TABLE rota.workers
    ADD COLUMN drain_requested_at timestamptz,           -- real clock; NULL: it claims
    ADD COLUMN drain_requested_by text,
    ADD COLUMN drain_reason       text,
    ADD COLUMN drain_seen_at      timestamptz,           -- since when the worker knows
    ADD COLUMN is_to_stop         boolean NOT NULL DEFAULT false;

-- The row of a worker that can be told something.
CREATE FUNCTION rota.lock_live_worker(of_worker bigint) RETURNS rota.workers LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.workers;
BEGIN
    SELECT * INTO found FROM rota.workers w WHERE w.id = of_worker FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'there is no worker %', of_worker USING ERRCODE = 'RO010';
    ELSIF found.state <> 'live' THEN
        RAISE EXCEPTION 'worker % is %', of_worker, found.state USING ERRCODE = 'RO005';
    END IF;
    RETURN found;
END $$;

-- It learns of it by a call, or with its next heartbeat at the latest. One that drains already can still be told to stop.
CREATE FUNCTION rota.drain_worker(worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    who text := coalesce(drain_worker.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
BEGIN
    IF was_draining AND (found.is_to_stop OR NOT drain_worker.stop) THEN
        RAISE EXCEPTION 'worker % is already draining', drain_worker.worker USING ERRCODE = 'RO005';
    END IF;
    -- Somebody else makes room for suspects; it takes none any more.
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()), drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = drain_worker.stop, is_solo = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', true, 'is_to_stop', drain_worker.stop), drain_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;

CREATE FUNCTION rota.resume_worker(worker bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.workers := rota.lock_live_worker(resume_worker.worker);
BEGIN
    IF found.drain_requested_at IS NULL THEN
        RAISE EXCEPTION 'worker % is not draining', resume_worker.worker USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.workers w SET drain_requested_at = NULL, drain_requested_by = NULL, drain_reason = NULL, drain_seen_at = NULL,
        is_to_stop = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(resume_worker.actor, 'worker.resumed', 'worker', found.id::text,
        jsonb_build_object('is_draining', true, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', false, 'is_to_stop', false), resume_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;
