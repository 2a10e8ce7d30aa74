-- A call reaches the fewest that can serve it. Each worker that waits has a channel of its own. Of those that serve the queue
-- the first one is called and the second one is told to watch: if the run is still there a moment later, the second takes it
-- and passes over the first. Nothing is written by whoever enqueues.

-- The same number for the same jobs: a call that one of them cannot serve, none of them can.
CREATE FUNCTION rota.job_set(jobs text[]) RETURNS bigint LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT hashtextextended(array_to_string(jobs, chr(31)), 0)
$$;

ALTER TABLE rota.workers
    ADD COLUMN channel text,                                  -- where it hears calls for itself; NULL: it hears all of them
    ADD COLUMN is_looking boolean NOT NULL DEFAULT false,     -- it looks every few milliseconds: nobody has to be called
    ADD COLUMN job_set bigint GENERATED ALWAYS AS (rota.job_set(jobs)) STORED;
DROP INDEX rota.workers_waiting;
CREATE INDEX workers_waiting ON rota.workers (job_set, is_looking DESC, id) WHERE is_waiting;

-- Whoever does not wait does not poll either: set by statements of this release only, undone by all.
ALTER TABLE rota.workers ADD CONSTRAINT workers_looking CHECK (is_waiting OR NOT is_looking) NOT VALID;
CREATE FUNCTION rota.end_looking() RETURNS trigger LANGUAGE plpgsql SET jit = off AS $$
BEGIN
    NEW.is_looking := false;
    RETURN NEW;
END $$;
CREATE TRIGGER end_looking BEFORE UPDATE OF is_waiting ON rota.workers
    FOR EACH ROW WHEN (OLD.is_looking AND NOT NEW.is_waiting AND NEW.is_looking) EXECUTE FUNCTION rota.end_looking();

-- One of each kind (workers of the same jobs), and one more that watches. Under READ COMMITTED a worker that is not waiting yet will look
-- again by itself (see claim); above it, the caller's view of the flag is as old as its snapshot, so it calls everybody.
DROP FUNCTION rota.wake(text[]);
CREATE FUNCTION rota.wake(queues text[], most integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off SET enable_seqscan = off AS $$
DECLARE
    called text;
    one    record;
    kind   bigint;
    met    integer;   -- workers of this kind
    seen   integer;   -- rows of one look
BEGIN
    FOREACH called IN ARRAY queues LOOP
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM pg_notify('rota', 'queue ' || called);
            CONTINUE;
        END IF;
        kind := -9223372036854775808;
        met := 0;
        LOOP
            seen := 0;
            FOR one IN
                SELECT w.job_set, w.channel, w.is_looking FROM rota.workers w
                WHERE w.is_waiting AND w.job_set >= kind AND (met = 0 OR w.job_set > kind)
                  AND (w.queues = '{}' OR called = ANY (w.queues))
                  AND w.drain_requested_at IS NULL AND w.lease_expires_at > clock_timestamp()
                ORDER BY w.job_set, w.is_looking DESC, w.id LIMIT most + 2
            LOOP
                seen := seen + 1;
                IF seen = 1 THEN
                    kind := one.job_set;
                    met := 0;
                ELSIF one.job_set <> kind THEN
                    seen := most + 2;   -- there are more kinds
                    EXIT;
                END IF;
                met := met + 1;
                EXIT WHEN one.is_looking OR met > most + 1;
                IF one.channel IS NULL THEN
                    PERFORM pg_notify('rota', 'queue ' || called);
                ELSE
                    PERFORM pg_notify(one.channel, CASE WHEN met <= most THEN 'queue ' ELSE 'watch ' END || called);
                END IF;
            END LOOP;
            EXIT WHEN seen < most + 2 AND NOT coalesce(one.is_looking, false);
            EXIT WHEN seen = 0;
        END LOOP;
    END LOOP;
END $$;

-- The state of the hand-shake that loses no wake-up: see set_waiting, which releases before this one call.
CREATE FUNCTION rota.answer_calls(for_worker bigint, waiting boolean, polling boolean, own_channel text) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    UPDATE rota.workers SET is_waiting = waiting, is_looking = waiting AND polling, channel = own_channel
    WHERE id = for_worker AND state IN ('live', 'stopping')
      AND (is_waiting, is_looking, channel) IS DISTINCT FROM (waiting, waiting AND polling, own_channel)
$$;

-- It has more than it can do: others are called in its place, two of them, so that a fleet is awake in a few steps.
CREATE FUNCTION rota.pass_on(for_worker bigint, queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.workers SET is_waiting = false WHERE id = for_worker AND is_waiting;
    PERFORM rota.wake(ARRAY(
        SELECT q.name FROM unnest(pass_on.queues) AS q (name)
        WHERE EXISTS (SELECT FROM rota.open_runs o WHERE o.queue = q.name AND o.state = 'queued')), 2);
END $$;

-- Those who would have been called before this worker did not take what it has found. They are told; whoever hears it waits again when
-- it has nothing to do. One that is stopped, or whose connection is half open, hears nothing and is called no more.
CREATE FUNCTION rota.pass_over_silent(for_worker bigint, in_queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one text;
BEGIN
    FOR one IN
        UPDATE rota.workers SET is_waiting = false WHERE id IN (
            SELECT w.id FROM rota.workers w JOIN rota.workers own ON own.id = for_worker
            WHERE w.is_waiting AND w.job_set = own.job_set AND w.id <> own.id
              AND (w.queues = '{}' OR w.queues && in_queues) AND (w.is_looking OR w.id < own.id OR NOT own.is_waiting)
            FOR UPDATE OF w SKIP LOCKED)
        RETURNING channel
    LOOP
        PERFORM pg_notify(one, 'passed') WHERE one IS NOT NULL;
    END LOOP;
END $$;
