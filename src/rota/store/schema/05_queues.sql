-- `queues`: what somebody said about a queue. A queue needs no row to exist. Verbs: `pause_queue`, `resume_queue`;
-- `end_pauses` ends those whose time is over.

-- A queue needs no row to exist; a row holds what an operator said about it.
CREATE TABLE rota.queues (
    name         text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    is_paused    boolean NOT NULL DEFAULT false,
    paused_at    timestamptz,
    paused_by    text,
    pause_reason text,
    version      bigint NOT NULL DEFAULT 1,
    paused_until timestamptz,
    CHECK (is_paused = (paused_at IS NOT NULL))
);
CREATE INDEX queues_paused_until ON rota.queues (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON COLUMN rota.queues.paused_until IS 'it goes on by itself then; NULL: when somebody resumes it';
CREATE TRIGGER queues_version BEFORE UPDATE ON rota.queues FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version}');

-- No run of the queue is claimed until it is resumed, or until that time. What runs, runs on.
-- Called by: sql/queues/pause.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL,
    until timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_queue.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   rota.queues;
BEGIN
    IF pause_queue.until <= clock THEN
        RAISE EXCEPTION 'queue "%": a pause ends in the future, not at %', pause_queue.queue, pause_queue.until
            USING ERRCODE = 'RO002';
    END IF;
    SELECT * INTO was FROM rota.queues q WHERE q.name = pause_queue.queue FOR UPDATE;
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_queue.queue, true, clock, who, pause_queue.reason, pause_queue.until)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.queue_is_paused(q) THEN q.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.queue_is_paused(q) THEN coalesce(excluded.pause_reason, q.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.queue_is_paused(q) OR q.paused_until IS DISTINCT FROM excluded.paused_until;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is already paused', pause_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(who, 'queue.paused', 'queue', pause_queue.queue,
        CASE WHEN rota.queue_is_paused(was) THEN jsonb_build_object('is_paused', true, 'paused_until',
        was.paused_until) END, jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until',
            pause_queue.until)), pause_queue.reason);
    PERFORM rota.wake_later(pause_queue.until - clock) WHERE pause_queue.until IS NOT NULL;
END $$;

-- A pause whose time is over counts as none, before anybody has ended it.
-- Called by: many.
CREATE FUNCTION rota.queue_is_paused(q rota.queues) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT q.is_paused AND (q.paused_until IS NULL OR q.paused_until > rota.now())
$$;

-- The queue goes on, and whoever waits for work is called.
-- Called by: sql/queues/resume.sql, users.
CREATE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE q.name = resume_queue.queue AND rota.queue_is_paused(q);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is not paused', resume_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(resume_queue.actor, 'queue.resumed', 'queue', resume_queue.queue, '{"is_paused": true}',
        '{"is_paused": false}', resume_queue.reason);
    PERFORM rota.wake(ARRAY[resume_queue.queue]);
END $$;

-- Ends pauses of queues whose time is over, and calls those who wait. Answers the seconds until the next one ends.
-- Called by: promote_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.end_pauses(clock timestamptz) RETURNS double precision LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    over record;
BEGIN
    FOR over IN
        SELECT q.name, q.paused_until FROM rota.queues q WHERE q.is_paused AND q.paused_until <= clock ORDER BY q.name
        FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
            paused_until = NULL
        WHERE q.name = over.name;
        PERFORM rota.write_audit('rota', 'queue.resumed', 'queue', over.name,
            jsonb_build_object('is_paused', true, 'paused_until', over.paused_until), '{"is_paused": false}',
            'its pause was over');
        PERFORM rota.wake(ARRAY[over.name]);
    END LOOP;
    RETURN (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q
        WHERE q.is_paused AND q.paused_until > clock);
END $$;
