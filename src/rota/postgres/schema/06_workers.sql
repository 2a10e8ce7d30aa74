-- `workers`: one row for each process that runs jobs, with its lease. Its life: `register_worker`, `start_worker`,
-- `beat` until it ends; `drain_worker` and `resume_worker` are what people tell it, `fall_asleep` is what it does
-- where nothing is to be done. `batch_starts`, `fleets` and `builds` say what started when. How a worker is called
-- is in 08_enqueue, what happens when it is lost in 11_rescue.

-- Ids are never reused: an old worker under a new name must not pass a fence.
CREATE SEQUENCE rota.worker_ids;

-- The same number for the same jobs with the same signatures: what one worker of them cannot serve, none of them can.
-- Called by: workers.
CREATE FUNCTION rota.job_set(jobs text[], intakes integer[]) RETURNS bigint LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT hashtextextended(array_to_string(jobs, chr(31)) || chr(30) || array_to_string(intakes, ' '), 0)
$$;

-- One row for each process that runs jobs. A worker lives as long as its lease; who is declared lost passes no fence
-- any more. Many small updates: half of each page is kept free for them.
CREATE TABLE rota.workers (
    id                  bigint PRIMARY KEY DEFAULT nextval('rota.worker_ids'),
    name                text NOT NULL,
    host                text NOT NULL,
    pid                 integer NOT NULL,
    version             text NOT NULL DEFAULT '',
    queues              text[] NOT NULL DEFAULT '{}',    -- empty: all
    jobs                text[] NOT NULL DEFAULT '{}',
    concurrency         integer NOT NULL CHECK (concurrency >= 1),
    state               text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'stopping', 'gone', 'lost')),
    is_stuck            boolean NOT NULL DEFAULT false,  -- its event loop is blocked
    is_waiting          boolean NOT NULL DEFAULT false,  -- enqueuers shall call it
    lease_seconds       double precision NOT NULL CHECK (lease_seconds > 0),
    started_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at    timestamptz NOT NULL,
    ended_at            timestamptz,
    application         text COLLATE "C",
    build               text,
    drain_requested_at  timestamptz,                     -- real clock; NULL: it claims
    drain_requested_by  text,
    drain_reason        text,
    drain_seen_at       timestamptz,                     -- since when the worker knows
    is_to_stop          boolean NOT NULL DEFAULT false,
    is_start            boolean NOT NULL DEFAULT false,  -- not one that came back after it lost its lease
    isolating_run       bigint,
    isolating_attempt   integer,
    is_isolating_inline boolean NOT NULL DEFAULT false,
    -- What a worker says of itself with each beat: when the database last answered its asking for work, when it last
    -- wrote an end, its errors in a row, and what does not get done. A worker with a trouble is live but failing.
    claimed_at          timestamptz,
    finished_at         timestamptz,
    errors              integer NOT NULL DEFAULT 0,
    trouble             text,
    -- With each beat a worker says how much memory its process and those that it started hold, and how much processor
    -- time they have used; what it used since the beat before is kept beside it, so that one look tells how busy it is.
    memory_bytes        bigint,
    cpu_seconds         double precision,
    cpu_cores           real,
    is_to_hurry         boolean NOT NULL DEFAULT false,
    -- A worker behind a pooler that lends sessions for a transaction only hears no calls: it polls, and says so.
    is_polling          boolean NOT NULL DEFAULT false,
    channel             text,                            -- where it hears calls for itself; NULL: it hears all of them
    is_looking          boolean NOT NULL DEFAULT false,  -- it looks every few milliseconds: nobody has to be called
    job_set             bigint GENERATED ALWAYS AS (rota.job_set(jobs, intakes)) STORED,
    -- Sleep, for databases that are paid by activity: a worker that has nothing to do signs off, lets go of its
    -- connections, and comes back under a new number. Its row says until when it sleeps at most.
    asleep_until        timestamptz,
    release             text,
    -- For each of its jobs, by position: which payloads its code takes, as a number (signature, upgrade and release).
    -- Two workers with the same number take the same payloads; 0: any.
    intakes             integer[] NOT NULL DEFAULT '{}',
    CHECK ((state IN ('gone', 'lost')) = (ended_at IS NOT NULL)),
    CHECK (NOT (is_waiting AND state IN ('gone', 'lost'))),
    -- A worker that does not wait does not look either.
    CONSTRAINT workers_looking CHECK (is_waiting OR NOT is_looking)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX workers_waiting ON rota.workers (job_set, is_looking DESC, id) WHERE is_waiting;
COMMENT ON COLUMN rota.workers.claimed_at IS 'when it last claimed successfully, with or without getting runs';
COMMENT ON COLUMN rota.workers.finished_at IS 'when it last recorded the end of attempts';
COMMENT ON COLUMN rota.workers.errors IS 'consecutive errors of the loop that has the most';
COMMENT ON COLUMN rota.workers.trouble IS 'which of its loops keeps failing, and why';
COMMENT ON COLUMN rota.workers.memory_bytes IS 'resident memory of its process and its children; NULL: not measured';
COMMENT ON COLUMN rota.workers.cpu_seconds IS 'processor time of its process and its children since they started';
COMMENT ON COLUMN rota.workers.cpu_cores IS 'cores in use between its last two heartbeats';
COMMENT ON COLUMN rota.workers.is_to_hurry
    IS 'told to stop within its shutdown_seconds and to interrupt attempts that run longer';
COMMENT ON COLUMN rota.workers.is_polling
    IS 'cannot receive NOTIFY, for lack of a session of its own; it finds runs within worker.poll_seconds';
COMMENT ON COLUMN rota.workers.asleep_until
    IS 'it sleeps without a connection, until this time at the latest; NULL: it does not sleep';
COMMENT ON COLUMN rota.workers.release IS 'the release of its application; NULL: none was given';

-- A batch that was claimed ahead counts as started from the moment its row is here:
-- append-only, because a counter updated in place grows a chain of dead versions that
-- every claim would walk while an old snapshot is held.
CREATE TABLE rota.batch_starts (
    worker bigint NOT NULL,
    batch  bigint NOT NULL,
    PRIMARY KEY (worker, batch)
);

-- Enters a new worker, live from now on, and returns its id.
-- Called by: sql/workers/register.sql.
CREATE FUNCTION rota.register_worker(
    name text, host text, pid integer, version text, queues text[], jobs text[],
    concurrency integer, lease_seconds double precision, intakes integer[] DEFAULT '{}'
) RETURNS bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.workers (name, host, pid, version, queues, jobs, concurrency, lease_seconds, lease_expires_at,
        intakes)
    VALUES (register_worker.name, register_worker.host, register_worker.pid, register_worker.version,
            register_worker.queues, register_worker.jobs, register_worker.concurrency, register_worker.lease_seconds,
            clock_timestamp() + make_interval(secs => register_worker.lease_seconds), register_worker.intakes)
    RETURNING id
$$;

-- Workers start one after the other here (lock "fleet"): one that finds nobody live opens the next fleet. One that
-- comes back after it lost its lease starts nothing.
-- Called by: sql/workers/start.sql.
-- Locks: "fleet".
CREATE FUNCTION rota.start_worker(for_worker bigint, of_application text, of_build text, is_new boolean,
    of_release text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM rota.take_lock('fleet', 1000);
    INSERT INTO rota.fleets AS f (application, number)
    SELECT a, 1 FROM unnest(ARRAY['', of_application]) a
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.application IS NOT NULL AND a IN ('', w.application)
                      AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
                      AND w.id <> for_worker)
    ORDER BY a
    ON CONFLICT (application) DO UPDATE SET number = f.number + 1, started_at = rota.now() WHERE is_new;
    UPDATE rota.workers SET application = of_application, build = of_build, is_start = is_start OR is_new,
        release = of_release
    WHERE id = for_worker;
END $$;

-- Renews the lease and returns false to a worker that was declared lost. A lease that ran out while nobody rescued
-- is still its own: rescue marks the worker before it takes a row. What the worker says about itself (its last claim
-- and finish, errors, trouble, memory, processor time) is written with it.
-- Called by: sql/workers/beat.sql.
CREATE FUNCTION rota.beat(
    for_worker bigint, stuck boolean DEFAULT false, claimed_seconds double precision DEFAULT NULL,
    finished_seconds double precision DEFAULT NULL, errors integer DEFAULT 0, trouble text DEFAULT NULL,
    memory_bytes bigint DEFAULT NULL, cpu_seconds double precision DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.workers w
    SET heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp() + make_interval(secs => w.lease_seconds),
        is_stuck = stuck,
        claimed_at = coalesce(clock_timestamp() - make_interval(secs => claimed_seconds), w.claimed_at),
        finished_at = coalesce(clock_timestamp() - make_interval(secs => finished_seconds), w.finished_at),
        errors = beat.errors, trouble = beat.trouble, memory_bytes = beat.memory_bytes, cpu_seconds = beat.cpu_seconds,
        -- Less than before: a child has gone with what it had used.
        cpu_cores = CASE WHEN beat.cpu_seconds >= w.cpu_seconds
                         THEN (beat.cpu_seconds - w.cpu_seconds) / greatest(extract(epoch
                             FROM clock_timestamp() - w.heartbeat_at), 0.1) END
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM rota.batch_starts b
    WHERE b.worker = for_worker AND b.batch < (SELECT max(n.batch) FROM rota.batch_starts n
        WHERE n.worker = for_worker);
    RETURN true;
END $$;

-- Refuses a worker that is not live, or whose lease has run out (RO006).
-- Called by: claim_runs, claim_suspect.
CREATE FUNCTION rota.check_worker(for_worker bigint) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    PERFORM FROM rota.workers w WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % is not live', for_worker USING ERRCODE = 'RO006';
    END IF;
END $$;

-- How often each application's workers started from none: the number that init schedules of kind start go by.
CREATE TABLE rota.fleets (
    application text COLLATE "C" PRIMARY KEY,  -- '': all workers together
    number      bigint NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT rota.now()
);

-- All that an application declares, as one digest. The highest number is the newest code; builds of one process, which
-- has declared more since its start, share a number.
CREATE TABLE rota.builds (
    application   text COLLATE "C" NOT NULL,
    build         text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    has_worked    boolean NOT NULL DEFAULT false,  -- some worker has run it
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    shape         text COLLATE "C",                -- the digest without what may differ from start to start
    release       text COLLATE "C",                -- as its configuration calls it
    PRIMARY KEY (application, build)
);

-- The workers of an application whose lease runs.
-- Called by: gone_jobs, may_follow, may_speak.
CREATE FUNCTION rota.live_workers(of_application text) RETURNS SETOF rota.workers LANGUAGE sql STABLE AS $$
    SELECT w.* FROM rota.workers w
    WHERE w.application = of_application AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
$$;

-- What the workers of an application have: those that live, sleep, or ended less than a minute ago, as a restart
-- takes its time, and the one that started last, until its row is swept.
-- Called by: gone_jobs.
CREATE FUNCTION rota.kept_jobs(of_application text) RETURNS SETOF text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT unnest(w.jobs) FROM rota.workers w
    WHERE w.application = of_application AND (
        coalesce(w.ended_at, w.lease_expires_at) > clock_timestamp() - interval '1 minute' OR rota.is_asleep(w)
        OR w.id = (SELECT max(s.id) FROM rota.workers s WHERE s.application = of_application AND s.is_start))
$$;

-- Asks a worker to finish what it runs and to take nothing new; stop: to end then; at_once: to end within its
-- shutdown_seconds. It learns of it by a call, or with its next heartbeat at the latest. One that drains already can
-- still be told to stop. Returns whether it wrote: false if it was asked for that, or for more, already.
-- Called by: operations/workers.py, users.
CREATE FUNCTION rota.drain_worker(
    worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    at_once boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := rota.who(drain_worker.actor);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
    is_stopping boolean := drain_worker.stop OR drain_worker.at_once;
BEGIN
    IF was_draining AND (found.is_to_hurry OR NOT drain_worker.at_once) AND (found.is_to_stop OR NOT is_stopping) THEN
        RETURN false;
    END IF;
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()),
        drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = is_stopping,
        is_to_hurry = drain_worker.at_once
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop, 'is_to_hurry',
        found.is_to_hurry), jsonb_build_object('is_draining', true, 'is_to_stop', is_stopping, 'is_to_hurry',
        drain_worker.at_once), drain_worker.reason);
    PERFORM rota.call_workers('worker ' || found.id);
    RETURN true;
END $$;

-- A draining worker takes work again. Returns whether it wrote: false if it was not draining.
-- Called by: operations/workers.py, users.
CREATE FUNCTION rota.resume_worker(worker bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.workers := rota.lock_live_worker(resume_worker.worker);
BEGIN
    IF found.drain_requested_at IS NULL THEN
        RETURN false;
    END IF;
    UPDATE rota.workers w SET drain_requested_at = NULL, drain_requested_by = NULL, drain_reason = NULL,
        drain_seen_at = NULL,
        is_to_stop = false, is_to_hurry = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(resume_worker.actor, 'worker.resumed', 'worker', found.id::text,
        jsonb_build_object('is_draining', true, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', false, 'is_to_stop', false), resume_worker.reason);
    PERFORM rota.call_workers('worker ' || found.id);
    RETURN true;
END $$;

-- Locks the row of a worker that can be told something; says of one that sleeps that it does.
-- Called by: drain_worker, resume_worker.
-- Locks: rows.
CREATE FUNCTION rota.lock_live_worker(of_worker bigint) RETURNS rota.workers LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    found rota.workers;
BEGIN
    SELECT * INTO found FROM rota.workers w WHERE w.id = of_worker FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'there is no worker %', of_worker
            USING ERRCODE = 'RO010', DETAIL = jsonb_build_object('worker', of_worker);
    ELSIF found.state <> 'live' THEN
        RAISE EXCEPTION 'worker % is %', of_worker,
            CASE WHEN rota.is_asleep(found) THEN 'asleep, and returns under another number' ELSE found.state END
            USING ERRCODE = 'RO005';
    END IF;
    RETURN found;
END $$;

-- Runs by worker: what was claimed ahead and has not started is apart.
-- Called by: sql/workers/list.sql.
CREATE FUNCTION rota.worker_loads() RETURNS TABLE (worker bigint, running bigint, claimed bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.worker, count(*) FILTER (WHERE coalesce(r.claim_batch, 0) <= coalesce(s.batch, 0)),
           count(*) FILTER (WHERE r.claim_batch > coalesce(s.batch, 0))
    FROM rota.running_runs() r
    LEFT JOIN (SELECT b.worker, max(b.batch) AS batch FROM rota.batch_starts b GROUP BY b.worker) s
        ON s.worker = r.worker
    GROUP BY r.worker
$$;

-- For how long nothing will come that the database knows of; 0: there is something to do, or somebody is at work and
-- may be lost with it. Of each queue only the front is read: what a worker could take it has taken.
-- Called by: fall_asleep, sql/workers/quiet_seconds.sql.
CREATE FUNCTION rota.quiet_seconds(for_worker bigint, most_seconds double precision, is_ticking boolean)
RETURNS double precision LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    known text[] := (SELECT w.jobs FROM rota.workers w WHERE w.id = for_worker);
    lane  text;
BEGIN
    IF EXISTS (SELECT FROM rota.running_runs()) OR EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect')
       OR EXISTS (SELECT FROM rota.bulk_actions b WHERE b.state = 'running') THEN
        RETURN 0;
    END IF;
    LOOP
        SELECT o.queue INTO lane FROM rota.open_runs o WHERE o.is_ready AND (lane IS NULL OR o.queue > lane)
        ORDER BY o.queue LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = lane AND rota.queue_is_paused(q)) AND EXISTS (
               SELECT FROM (SELECT o.job FROM rota.open_runs o WHERE o.is_ready AND o.queue = lane
                   ORDER BY o.priority, o.seq LIMIT 1000) f
               JOIN rota.jobs j ON j.name = f.job AND j.is_enabled WHERE f.job = ANY (known)) THEN
            RETURN 0;
        END IF;
    END LOOP;
    RETURN greatest(0, least(most_seconds,
        (SELECT extract(epoch FROM o.run_at - clock) FROM rota.open_runs o WHERE o.is_future AND o.run_at < 'infinity'
            ORDER BY o.run_at LIMIT 1),
        (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q
            WHERE q.is_paused AND q.paused_until < 'infinity'),
        CASE WHEN is_ticking THEN rota.next_schedule_seconds() END));
END $$;

-- Whether a worker sleeps. One that was killed in its sleep does not come back: it counts as asleep for no longer
-- than a minute after its time.
-- Called by: has_taker, kept_jobs, lock_live_worker, park_unknown_runs, sql/attention/unserved.sql,
-- sql/metrics/health.sql, sql/workers/list.sql, why_asleep.
CREATE FUNCTION rota.is_asleep(w rota.workers) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.state = 'gone' AND w.asleep_until > clock_timestamp() - interval '1 minute'
$$;

-- Signs a worker off to sleep, and returns for how long it may.
-- Called by: sql/workers/fall_asleep.sql.
CREATE FUNCTION rota.fall_asleep(for_worker bigint, most_seconds double precision, is_ticking boolean)
RETURNS double precision LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    seconds double precision := rota.quiet_seconds(for_worker, most_seconds, is_ticking);
BEGIN
    UPDATE rota.workers w SET state = 'gone', is_waiting = false, ended_at = clock_timestamp(),
        asleep_until = clock_timestamp() + make_interval(secs => seconds)
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    RETURN CASE WHEN FOUND THEN seconds ELSE 0 END;
END $$;
