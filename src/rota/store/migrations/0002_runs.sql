-- Runs. What has not ended is in open_runs, thin and small; what has ended is appended to
-- ended_runs and never updated, in partitions by the time of its end, so that the cost of a
-- claim depends on what waits and never on what has finished.

-- One sequence for ids and for places in the line: an id is also the first place.
CREATE SEQUENCE rota.run_ids;

CREATE TABLE rota.open_runs (
    id              bigint NOT NULL,
    seq             bigint NOT NULL,            -- the place in its queue and priority
    created_at      timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,       -- real clock: since when it could be claimed
    run_at          timestamptz NOT NULL,
    worker          bigint,
    claim_batch     bigint,                     -- NULL while running: started with its claim
    started_at      timestamptz,
    attempt         integer NOT NULL DEFAULT 0, -- grows with every claim and never falls: the fence
    validated_by    integer,                    -- hash of the payload schema that accepted it
    attempts_used   smallint NOT NULL DEFAULT 0,
    max_attempts    smallint NOT NULL,
    priority        smallint NOT NULL,
    is_suspect      boolean NOT NULL DEFAULT false, -- lost once: its worker died with it
    state           text COLLATE "C" NOT NULL,
    queue           text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    tenant          text COLLATE "C" NOT NULL DEFAULT '',
    payload         jsonb NOT NULL,
    held_by         text COLLATE "C",           -- queued, but kept out of the claim; says by what
    held_at         timestamptz,                -- since when no worker knows its job
    expires_at      timestamptz,
    timeout_seconds real,
    key             text,
    key_seconds     double precision,           -- how long the key outlives the run; NULL: not at all
    backoff         jsonb,
    tags            text[],
    metadata        jsonb,
    triggered_by    jsonb,                      -- NULL: by code
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
    CONSTRAINT open_runs_pkey PRIMARY KEY (id),
    CONSTRAINT open_runs_state CHECK (state IN ('blocked', 'scheduled', 'queued', 'running')),
    CONSTRAINT open_runs_running CHECK ((state = 'running') = (worker IS NOT NULL)
                                    AND (state = 'running') = (started_at IS NOT NULL)),
    CONSTRAINT open_runs_batch CHECK (claim_batch IS NULL OR state = 'running'),
    CONSTRAINT open_runs_held CHECK (held_by IS NULL OR state = 'queued'),
    CONSTRAINT open_runs_priority CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT open_runs_attempts CHECK (max_attempts >= 1 AND attempts_used >= 0
                                    AND attempts_used < max_attempts AND attempt >= attempts_used),
    CONSTRAINT open_runs_payload CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT open_runs_timeout CHECK (timeout_seconds > 0),
    CONSTRAINT open_runs_progress CHECK (progress BETWEEN 0 AND 1)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- No index names state, worker or attempt, in its columns or its predicate: that is what keeps
-- the claim's update on its page (docs/decisions/0002-data-shape.md).
CREATE INDEX open_runs_claim ON rota.open_runs (queue, priority, seq) WHERE is_ready;
CREATE INDEX open_runs_due ON rota.open_runs (run_at) WHERE is_future;
CREATE INDEX open_runs_held ON rota.open_runs (held_by, job) WHERE held_by IS NOT NULL;

-- History. keep_class comes first, so that what is kept longer lies in partitions of its own.
-- The last attempt is part of the row; earlier ones are rows of past_attempts.
CREATE TABLE rota.ended_runs (
    id              bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    run_at          timestamptz NOT NULL,
    started_at      timestamptz,                -- of the last attempt
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
    payload         jsonb NOT NULL,
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
    end_reason      text,                       -- NULL: it simply succeeded
    CONSTRAINT ended_runs_reason CHECK (state = 'succeeded' OR end_reason IS NOT NULL)
) PARTITION BY LIST (keep_class);
CREATE INDEX ended_runs_id ON rota.ended_runs (id);
CREATE INDEX ended_runs_job ON rota.ended_runs (job, finished_at);
CREATE INDEX ended_runs_bad ON rota.ended_runs (finished_at) WHERE state <> 'succeeded';
CREATE TABLE rota.ended_runs_standard PARTITION OF rota.ended_runs FOR VALUES IN ('standard')
    PARTITION BY RANGE (finished_at);

CREATE TABLE rota.past_attempts (
    run_id        bigint NOT NULL,
    attempt       integer NOT NULL,
    state         text COLLATE "C" NOT NULL CHECK (state IN ('failed', 'snoozed', 'cancelled', 'timed_out', 'lost')),
    worker        bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz NOT NULL,
    duration_ms   real,
    is_redelivery boolean NOT NULL DEFAULT false,
    is_spent      boolean NOT NULL,             -- counted against max_attempts
    keep_class    text COLLATE "C" NOT NULL DEFAULT 'standard',
    job           text COLLATE "C" NOT NULL,
    tenant        text COLLATE "C" NOT NULL,
    message       text,
    details       jsonb,
    error_type    text,
    error         text,
    traceback     text
) PARTITION BY LIST (keep_class);
CREATE INDEX past_attempts_run ON rota.past_attempts (run_id, attempt);
CREATE TABLE rota.past_attempts_standard PARTITION OF rota.past_attempts FOR VALUES IN ('standard')
    PARTITION BY RANGE (finished_at);

-- Evidence, accepted after the attempt ended: not fenced by intent.
CREATE TABLE rota.logs (
    at      timestamptz NOT NULL,
    run_id  bigint NOT NULL,
    worker  bigint NOT NULL,
    attempt integer NOT NULL,
    seq     integer NOT NULL,
    level   text COLLATE "C" NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'critical')),
    job     text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL DEFAULT '',
    message text NOT NULL,
    fields  jsonb
) PARTITION BY RANGE (at);
CREATE INDEX logs_run ON rota.logs (run_id, attempt, seq);

INSERT INTO rota.partitioned VALUES ('ended_runs_standard', 7), ('past_attempts_standard', 7), ('logs', 1);

-- No unique index spans open and ended runs, and one on open_runs would forget a key the
-- moment its run ends.
CREATE TABLE rota.keys (
    tenant     text COLLATE "C" NOT NULL,
    job        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    run_id     bigint NOT NULL,
    expires_at timestamptz,                     -- NULL: its run has not ended
    PRIMARY KEY (tenant, job, key)
);
CREATE INDEX keys_expired ON rota.keys (expires_at) WHERE expires_at IS NOT NULL;

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

CREATE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at, NULL::timestamptz AS finished_at,
       NULL::real AS duration_ms, expires_at, NULL::text AS end_reason, attempts_used, progress, held_by
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL
FROM rota.ended_runs;
COMMENT ON VIEW rota.runs IS 'Waiting, running and ended runs as one.';

CREATE VIEW rota.attempts AS
SELECT id AS run_id, attempt, 'running' AS state, worker, started_at, NULL::timestamptz AS finished_at,
       NULL::real AS duration_ms, message, NULL::jsonb AS details, NULL::text AS error_type,
       NULL::text AS error, NULL::text AS traceback, is_suspect AS is_redelivery, NULL::boolean AS is_spent
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

SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');
