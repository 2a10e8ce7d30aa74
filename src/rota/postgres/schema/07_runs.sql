-- Runs. What has not ended is in `open_runs`, thin and small; what has ended is appended to `ended_runs` and never
-- updated, in partitions by the time of its end, so that the cost of a claim depends on what waits and never on what
-- has finished. Earlier attempts are rows of `past_attempts`. `keys` says which run holds a key, `cancel_requests`
-- what somebody asked of a running one. The views `runs` and `attempts` show all of it as one. The verbs follow in
-- the next files: enqueue, claim, finish, rescue.

-- One sequence for ids and for places in the line: an id is also the first place.
CREATE SEQUENCE rota.run_ids;

-- The rules of an open run, where the server need not read them anew. It does so with the constraints of a table in
-- each statement, which took 41 microseconds of a single enqueue; those of a domain it keeps for the session. The
-- constraint of the table only names the domains. For each row of a batch they cost what they did. As these types are
-- no column's, a rule that is made stricter later is not held against the rows that are there.
CREATE TYPE rota.run_facts AS (
    state text, worker bigint, started_at timestamptz, claim_batch bigint, held_by text, attempts_used smallint,
    max_attempts smallint, attempt integer, suspicion smallint
);
-- The state of a run and what goes with it.
CREATE DOMAIN rota.sound_run AS rota.run_facts
    CONSTRAINT open_runs_state CHECK (CASE (VALUE).state
        WHEN 'running' THEN (VALUE).worker IS NOT NULL AND (VALUE).started_at IS NOT NULL AND (VALUE).held_by IS NULL
        WHEN 'queued' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch) = 0
            AND ((VALUE).suspicion < 2 OR (VALUE).held_by IS NOT NULL)
        WHEN 'scheduled' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        WHEN 'blocked' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        ELSE false END)
    CONSTRAINT open_runs_attempts CHECK ((VALUE).attempts_used >= 0 AND (VALUE).attempts_used < (VALUE).max_attempts
        AND (VALUE).attempts_used <= (VALUE).attempt)
    CONSTRAINT open_runs_suspicion CHECK ((VALUE).suspicion BETWEEN 0 AND 2);
CREATE DOMAIN rota.run_instant AS timestamptz
    CONSTRAINT open_runs_instants CHECK (VALUE >= timestamptz '0001-01-02 00:00Z'
        AND VALUE < timestamptz '9999-12-31 00:00Z');
CREATE DOMAIN rota.run_priority AS smallint CONSTRAINT open_runs_priority
    CHECK (VALUE BETWEEN smallint '0' AND smallint '9');
CREATE DOMAIN rota.run_payload AS jsonb CONSTRAINT open_runs_payload CHECK (jsonb_typeof(VALUE) = 'object');
CREATE DOMAIN rota.run_key_seconds AS double precision CONSTRAINT open_runs_key_seconds
    CHECK (VALUE BETWEEN float8 '0' AND float8 'infinity');
CREATE DOMAIN rota.run_progress AS real CONSTRAINT open_runs_progress CHECK (VALUE BETWEEN real '0' AND real '1');
CREATE DOMAIN rota.run_timeout AS real CONSTRAINT open_runs_timeout
    CHECK (VALUE > real '0' AND VALUE <= real '3153600000');

-- What has not ended. Small, and updated often: pages keep room, and no index names what a claim changes.
CREATE TABLE rota.open_runs (
    id              bigint NOT NULL,
    seq             bigint NOT NULL,                 -- the place in its queue and priority
    created_at      timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,            -- real clock: since when it could be claimed
    run_at          timestamptz NOT NULL,
    worker          bigint,
    claim_batch     bigint,                          -- NULL while running: started with its claim
    started_at      timestamptz,
    attempt         integer NOT NULL DEFAULT 0,      -- grows with every claim and never falls: the fence
    validated_by    integer,                         -- hash of the payload schema that accepted it
    attempts_used   smallint NOT NULL DEFAULT 0,
    max_attempts    smallint NOT NULL,
    priority        smallint NOT NULL,
    -- 0: none; 1: a worker was lost with it; 2: it must be isolated, whatever else holds it meanwhile
    suspicion       smallint NOT NULL DEFAULT 0,
    state           text COLLATE "C" NOT NULL,
    queue           text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    tenant          text COLLATE "C" NOT NULL DEFAULT '',
    payload         jsonb,                           -- NULL: in large_payloads
    held_by         text COLLATE "C",                -- queued, but kept out of the claim; says by what
    held_at         timestamptz,                     -- since when no worker knows its job
    expires_at      timestamptz,
    timeout_seconds real,
    key             text,
    key_seconds     double precision,                -- how long the key outlives the run; NULL: not at all
    backoff         jsonb,
    tags            text[],
    metadata        jsonb,
    triggered_by    jsonb,                           -- NULL: by code
    schedule        text,
    scheduled_for   timestamptz,
    schedule_id     bigint,
    last_error      text,
    progress        real,
    message         text,
    -- In the claim's way: waiting or running. Generated, so that it cannot disagree with the state;
    -- and it does not change when a run is claimed, so that a claim touches no index at all.
    is_ready        boolean NOT NULL GENERATED ALWAYS AS (held_by IS NULL AND state IN ('queued', 'running')) STORED,
    is_future       boolean NOT NULL GENERATED ALWAYS AS (state = 'scheduled') STORED,
    error_group     text COLLATE "C",                -- of last_error
    -- NULL where there is no limit, which costs nothing.
    limit_keys      text[] COLLATE "C",              -- what it must have to start; sequences first
    slots           text[] COLLATE "C",              -- what it has
    limit_key       text COLLATE "C",                -- what it waits for now
    -- Runs of capped queues, ready, held and for later alike. A claim changes nothing that the index knows, and others
    -- are not in it.
    is_capped       boolean NOT NULL DEFAULT false,
    -- Whose code does not take its payload (rota.workers.intakes): those workers pass it over. NULL: nobody refused it.
    refused_by      integer[],
    CONSTRAINT open_runs_pkey PRIMARY KEY (id),
    -- Never NULL: what counts is that the values are made ones of their domains.
    CONSTRAINT open_runs_sound CHECK (num_nulls(
        ROW(state, worker, started_at, claim_batch, held_by, attempts_used, max_attempts, attempt,
            suspicion)::rota.sound_run,
        least(run_at, expires_at, scheduled_for)::rota.run_instant,
        greatest(run_at, expires_at, scheduled_for)::rota.run_instant,
        priority::rota.run_priority, payload::rota.run_payload, key_seconds::rota.run_key_seconds,
        progress::rota.run_progress, timeout_seconds::rota.run_timeout) IS NOT NULL)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX open_runs_due ON rota.open_runs (run_at) WHERE is_future;
CREATE INDEX open_runs_schedule ON rota.open_runs (schedule_id) WHERE schedule_id IS NOT NULL;
-- For lists by what few runs have. None of these columns changes with a claim.
CREATE INDEX open_runs_key ON rota.open_runs (key) WHERE key IS NOT NULL;
CREATE INDEX open_runs_tenant ON rota.open_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX open_runs_schedule_name ON rota.open_runs (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX open_runs_expiring ON rota.open_runs (expires_at) WHERE expires_at IS NOT NULL;
-- Runs that wait after a failure: of one error, and for whoever looks for words in errors among a million without any.
CREATE INDEX open_runs_error_group ON rota.open_runs (error_group, id) WHERE error_group IS NOT NULL;
-- A run that another one has asked for says which. Few have one, and only those are in these indexes.
CREATE INDEX open_runs_parent ON rota.open_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';
-- What claims walk, in their order. No index names state, worker or attempt, in its columns or its predicate: that
-- is what keeps the claim's update on its page (docs/decisions/0002-data-shape.md).
CREATE INDEX open_runs_claim ON rota.open_runs (queue, tenant, priority, seq) WHERE is_ready;
-- The line of each limit.
CREATE INDEX open_runs_limited ON rota.open_runs (limit_key, priority, seq) WHERE held_by = 'limit';
-- Held runs, by what holds them. Those that wait for a limit have an index of their own.
CREATE INDEX open_runs_held ON rota.open_runs (held_by, job, held_at) WHERE held_by IS NOT NULL AND held_by <> 'limit';
CREATE INDEX open_runs_slots ON rota.open_runs (id) WHERE slots IS NOT NULL;
CREATE INDEX open_runs_held_of_tenant ON rota.open_runs (held_by, tenant, seq)
    WHERE held_by = 'tenant' OR held_by = 'limit' AND tenant <> '';
CREATE INDEX open_runs_capped ON rota.open_runs (queue, priority, seq) WHERE is_capped;

-- Payloads of more than 4,000 bytes. A row that moves from table to table takes its payload with it, which is written
-- anew each time; a large one stays here, under the run's id, until the run is deleted.
CREATE TABLE rota.large_payloads (
    run_id  bigint PRIMARY KEY,
    payload jsonb NOT NULL
);

-- The payload of a run whose row has none.
-- Called by: many.
CREATE FUNCTION rota.large_payload(of_run bigint) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE SET jit = off AS $$
    SELECT p.payload FROM rota.large_payloads p WHERE p.run_id = of_run
$$;

-- Stores a large payload, and returns what its run's row has in its place: nothing.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, put_other_payload, retry_run, run_inits, write_ticks.
CREATE FUNCTION rota.put_large_payload(of_run bigint, payload jsonb) RETURNS jsonb LANGUAGE sql VOLATILE
SET jit = off AS $$
    INSERT INTO rota.large_payloads AS p (run_id, payload) VALUES (of_run, put_large_payload.payload)
    ON CONFLICT (run_id) DO UPDATE SET payload = excluded.payload
    RETURNING NULL::jsonb
$$;

-- Trigger: the payload of an open run is replaced, by a large one or instead of one.
CREATE FUNCTION rota.put_other_payload() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.payload IS NULL THEN
        IF OLD.payload IS NOT NULL THEN
            RAISE EXCEPTION 'run % must have a payload', NEW.id
                USING ERRCODE = 'not_null_violation', SCHEMA = 'rota', TABLE = 'open_runs', COLUMN = 'payload';
        END IF;
    ELSIF pg_column_size(NEW.payload) > 4000 THEN
        NEW.payload := rota.put_large_payload(NEW.id, NEW.payload);
    ELSE
        DELETE FROM rota.large_payloads p WHERE p.run_id = NEW.id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER open_runs_payload BEFORE UPDATE OF payload ON rota.open_runs FOR EACH ROW
WHEN (NEW.payload IS NULL OR jsonb_typeof(NEW.payload) = 'object'
    AND (OLD.payload IS NULL OR pg_column_size(NEW.payload) > 4000)) EXECUTE FUNCTION rota.put_other_payload();

-- History. keep_class comes first, so that what is kept longer lies in partitions of its own.
-- The last attempt is part of the row; earlier ones are rows of past_attempts.
CREATE TABLE rota.ended_runs (
    id              bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    run_at          timestamptz NOT NULL,
    started_at      timestamptz,  -- of the last attempt
    finished_at     timestamptz NOT NULL,
    worker          bigint,
    attempt         integer NOT NULL,
    duration_ms     real,
    attempts_used   smallint NOT NULL,
    max_attempts    smallint NOT NULL,
    priority        smallint NOT NULL,
    is_redelivery   boolean NOT NULL,
    state           text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    attempt_state   text COLLATE "C" CHECK (attempt_state IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
    keep_class      text COLLATE "C" NOT NULL DEFAULT 'standard',
    queue           text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    tenant          text COLLATE "C" NOT NULL,
    payload         jsonb,        -- NULL: in large_payloads
    result          jsonb,
    expires_at      timestamptz,
    timeout_seconds real,
    key             text,
    key_seconds     double precision,
    backoff         jsonb,
    tags            text[],
    metadata        jsonb,
    triggered_by    jsonb,
    schedule        text,
    scheduled_for   timestamptz,
    schedule_id     bigint,
    progress        real,
    message         text,
    details         jsonb,
    error_type      text,
    error           text,
    traceback       text,
    end_reason      text,         -- NULL: it simply succeeded
    error_group     text COLLATE "C",
    CONSTRAINT ended_runs_reason CHECK (state = 'succeeded' OR end_reason IS NOT NULL),
    -- Runs are looked up by id; the rest is there because a key of partitions names what they are divided by.
    CONSTRAINT ended_runs_pkey PRIMARY KEY (id, finished_at, keep_class)
) PARTITION BY LIST (keep_class);
CREATE INDEX ended_runs_job ON rota.ended_runs (job, finished_at);
CREATE INDEX ended_runs_bad ON rota.ended_runs (finished_at) WHERE state <> 'succeeded';
-- For lists by what few runs have. Partial: a run without a key, tenant or schedule that succeeds is in none of them.
CREATE INDEX ended_runs_key ON rota.ended_runs (key) WHERE key IS NOT NULL;
CREATE INDEX ended_runs_tenant ON rota.ended_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX ended_runs_schedule ON rota.ended_runs (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX ended_runs_bad_id ON rota.ended_runs (id) WHERE state <> 'succeeded';
CREATE INDEX ended_runs_error_group ON rota.ended_runs (error_group, id) WHERE error_group IS NOT NULL;
CREATE INDEX ended_runs_failed ON rota.ended_runs (id) WHERE state = 'failed';
CREATE INDEX ended_runs_parent ON rota.ended_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';

-- By week.
CREATE TABLE rota.ended_runs_standard PARTITION OF rota.ended_runs FOR VALUES IN ('standard')
    PARTITION BY RANGE (finished_at);

-- Attempts before the last one. Named by run and attempt, appended and never updated. Not in partitions: they go with
-- their run, and the last attempt of a run that is retried becomes one of them, however long ago it ended.
CREATE TABLE rota.past_attempts (
    run_id        bigint NOT NULL,
    attempt       integer NOT NULL,
    state         text COLLATE "C" NOT NULL CHECK (state IN ('failed', 'snoozed', 'cancelled', 'timed_out', 'lost')),
    worker        bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz NOT NULL,
    duration_ms   real,
    is_redelivery boolean NOT NULL DEFAULT false,
    is_spent      boolean NOT NULL,  -- counted against max_attempts
    job           text COLLATE "C" NOT NULL,
    tenant        text COLLATE "C" NOT NULL,
    message       text,
    details       jsonb,
    error_type    text,
    error         text,
    traceback     text,
    PRIMARY KEY (run_id, attempt)
);

-- No unique index spans open and ended runs, and one on open_runs would forget a key the
-- moment its run ends.
CREATE TABLE rota.keys (
    tenant     text COLLATE "C" NOT NULL,
    job        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    run_id     bigint NOT NULL,
    expires_at timestamptz,  -- NULL: its run has not ended
    PRIMARY KEY (tenant, job, key)
);
CREATE INDEX keys_expired ON rota.keys (expires_at) WHERE expires_at IS NOT NULL;

-- Keys whose run ended while somebody's transaction held the key's row: from when on the key is free. The end of a run
-- waits for nobody; `sweep` writes this into the key when its row is free again.
CREATE TABLE rota.key_releases (
    run_id     bigint PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    job        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL
);

-- Ends that a worker knows and could not write, because somebody's transaction held what they change. Appended, which
-- waits for nobody; `settle_kept_ends` writes each by itself. Until then the run shows as running, and no rescue takes
-- it for lost: what is known of an attempt outlives its worker.
CREATE TABLE rota.kept_ends (
    run_id        bigint NOT NULL,
    attempt       integer NOT NULL,
    worker        bigint NOT NULL,
    kept_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    duration_ms   real,
    attempt_state text COLLATE "C" NOT NULL,  -- 'unstarted': it was claimed, and goes back to its place
    state         text COLLATE "C",           -- NULL: it goes on
    end_reason    text,
    result        jsonb,
    message       text,
    error_type    text,
    error         text,
    traceback     text,
    details       jsonb,
    delay_seconds double precision,  -- of one that goes on
    is_spent      boolean,
    intake        integer,           -- of one whose payload was refused
    signature     integer,
    PRIMARY KEY (run_id, attempt, worker)
);

-- Cancelling what runs is a request: an operator's open transaction must not lock a row that
-- a batch of finishes needs.
CREATE TABLE rota.cancel_requests (
    run_id       bigint PRIMARY KEY,
    worker       bigint NOT NULL,
    attempt      integer NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT rota.now(),
    requested_by text NOT NULL,
    reason       text
);
CREATE INDEX cancel_requests_worker ON rota.cancel_requests (worker);

INSERT INTO rota.partitioned VALUES ('ended_runs_standard', 7);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Open and ended runs in one shape, with what lists filter by. An open run that is past its deadline shows as
-- cancelled before anybody has ended it, unless it had started in time.
CREATE VIEW rota.run_rows AS
SELECT id, job, queue,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN state ELSE 'cancelled' END AS state,
       priority, coalesce(payload, rota.large_payload(id)) AS payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN NULL
            ELSE greatest(expires_at, created_at) END AS finished_at,
       NULL::real AS duration_ms, expires_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE 'expired' END AS end_reason,
       attempts_used, progress,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN held_by END AS held_by,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN enqueued_at END AS enqueued_at,
       false AS is_ended, error_group
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, coalesce(payload, rota.large_payload(id)), run_at, attempt, max_attempts, key,
       tenant, coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL,
       NULL, true, error_group
FROM rota.ended_runs;

CREATE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule,
       scheduled_for, triggered_by, worker, last_error, message, result, created_at, started_at, finished_at,
       duration_ms, expires_at, end_reason, attempts_used, progress, held_by, enqueued_at, error_group
FROM rota.run_rows;
COMMENT ON VIEW rota.runs IS 'All runs: waiting, running and ended.';

CREATE VIEW rota.attempts AS
SELECT id AS run_id, attempt, 'running' AS state, worker, started_at, NULL::timestamptz AS finished_at,
       NULL::real AS duration_ms, message, NULL::jsonb AS details, NULL::text AS error_type,
       NULL::text AS error, NULL::text AS traceback, suspicion > 0 AS is_redelivery, NULL::boolean AS is_spent
FROM rota.open_runs WHERE state = 'running'
UNION ALL
SELECT run_id, attempt, state, worker, started_at, finished_at, duration_ms, message, details,
       error_type, error, traceback, is_redelivery, is_spent
FROM rota.past_attempts
UNION ALL
SELECT id, attempt, attempt_state, worker, started_at, finished_at, duration_ms, message, details,
       error_type, error, traceback, is_redelivery, attempt_state <> 'cancelled'
FROM rota.ended_runs WHERE attempt_state IS NOT NULL;
COMMENT ON VIEW rota.attempts IS 'Every attempt of every run: running, past and last.';

-- What holds a run now; NULL: nothing does. The one place that decides, in this order: whoever holds it until he frees
-- it himself (`others`: overlap, tenant, no_worker; a hold that follows from the rest is passed over), then its limits
-- (`missing` is what it lacks of them), then the isolation of a suspect. Suspicion is a column of its own, so that
-- no other hold makes anybody forget it. What is not due is held by nothing. Inlined wherever it is called.
-- Called by: many.
CREATE FUNCTION rota.hold_of(is_due boolean, missing text[], suspicion smallint DEFAULT 0, others text DEFAULT NULL)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN NOT is_due THEN NULL
                WHEN others NOT IN ('limit', 'suspect') THEN others
                WHEN cardinality(missing) > 0 THEN 'limit'
                WHEN suspicion = 2 THEN 'suspect' END
$$;

-- Whether a run that does not run is past its deadline: it counts as expired before anybody has ended it.
-- Called by: keep_job, run_state, settle_expired.
CREATE FUNCTION rota.is_over(state text, expires_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT expires_at IS NOT NULL AND state <> 'running' AND expires_at <= rota.now()
$$;

-- What runs. No index tells, because a claim touches none. Of many open runs only the front of each lane (queue,
-- tenant, priority) is read, where claims take from: what runs far behind a thousand waiting ones of its lane is
-- left out.
-- Called by: quiet_seconds, sql/attention/slow_runs.sql, sql/attention/workers.sql, sql/overview/running.sql,
-- sql/workers/running.sql, why_busy, worker_loads.
CREATE FUNCTION rota.running_runs() RETURNS SETOF rota.open_runs LANGUAGE plpgsql STABLE SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    IF NOT rota.has_many_open_runs() THEN
        RETURN QUERY SELECT o.* FROM rota.open_runs o WHERE o.state = 'running';
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.* FROM (SELECT DISTINCT d.queue FROM rota.depths d WHERE d.running > 0) AS q
    CROSS JOIN LATERAL rota.lane_tenants(q.queue) AS t (tenant)
    CROSS JOIN generate_series(0, 9) AS p (priority)
    CROSS JOIN LATERAL (SELECT o.* FROM rota.open_runs o
                        WHERE o.is_ready AND o.queue = q.queue AND o.tenant = t.tenant AND o.priority = p.priority
                        ORDER BY o.seq LIMIT 1000) AS f
    WHERE f.state = 'running';
END $$;

-- Where an ended run lies. Its id tells when it was created, and most runs end within two days: the rest of the history
-- is looked at only then.
-- Called by: find_run, run_state, why_run.
CREATE FUNCTION rota.find_ended(run_id bigint, OUT keep_class text, OUT finished_at timestamptz, OUT state text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    since timestamptz := (SELECT max(m.at) FROM rota.id_marks m WHERE m.id < find_ended.run_id);
    until timestamptz := since + interval '2 days';
BEGIN
    SELECT r.keep_class, r.finished_at, r.state INTO find_ended.keep_class, find_ended.finished_at, find_ended.state
    FROM rota.ended_runs r WHERE r.id = find_ended.run_id AND r.finished_at >= since AND r.finished_at < until;
    IF NOT FOUND THEN
        SELECT r.keep_class, r.finished_at, r.state INTO find_ended.keep_class, find_ended.finished_at, find_ended.state
        FROM rota.ended_runs r WHERE r.id = find_ended.run_id;
    END IF;
END $$;

-- Where a run is. One snapshot for both tables: a run that ends or is retried meanwhile is in one of them, whenever one
-- looks, and never in neither. No state: there is no such run.
-- Called by: cancel_run, delete_run, handle_run, reopen_run, retry_run.
CREATE FUNCTION rota.find_run(run_id bigint, OUT state text, OUT is_open boolean, OUT keep_class text,
    OUT finished_at timestamptz)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    SELECT o.state, true INTO find_run.state, find_run.is_open FROM rota.open_runs o WHERE o.id = find_run.run_id;
    IF NOT FOUND THEN
        SELECT e.state, false, e.keep_class, e.finished_at
        INTO find_run.state, find_run.is_open, find_run.keep_class, find_run.finished_at
        FROM rota.find_ended(find_run.run_id) e;
    END IF;
END $$;

-- Whether counting the open runs would take long. Of few of them readers count, of many they take what was counted
-- last (rota.depths), so that looking every second does not read a million rows.
-- Called by: kept_depths, read_depths, running_runs.
CREATE FUNCTION rota.has_many_open_runs() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) > 20000 FROM (SELECT FROM rota.open_runs LIMIT 20001) AS few
$$;
