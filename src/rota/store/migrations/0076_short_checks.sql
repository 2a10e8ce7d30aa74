-- The rules of an open run, where the server need not read them anew. It does so with the constraints of a table in each statement, which
-- took 41 microseconds of a single enqueue; those of a domain it keeps for the session. The constraint of the table only names
-- the domains. For each row of a batch they cost what they did. As these types are no column's, a rule that is made stricter
-- later is not held against the rows that are there.
CREATE TYPE rota.run_facts AS (
    state text, worker bigint, started_at timestamptz, claim_batch bigint, held_by text, attempts_used smallint, max_attempts smallint, attempt integer
);
CREATE DOMAIN rota.sound_run AS rota.run_facts
    CONSTRAINT open_runs_state CHECK (CASE (VALUE).state
        WHEN 'running' THEN (VALUE).worker IS NOT NULL AND (VALUE).started_at IS NOT NULL AND (VALUE).held_by IS NULL
        WHEN 'queued' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch) = 0
        WHEN 'scheduled' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        WHEN 'blocked' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        ELSE false END)
    CONSTRAINT open_runs_attempts CHECK ((VALUE).attempts_used >= 0 AND (VALUE).attempts_used < (VALUE).max_attempts
        AND (VALUE).attempts_used <= (VALUE).attempt);
CREATE DOMAIN rota.run_instant AS timestamptz
    CONSTRAINT open_runs_instants CHECK (VALUE >= timestamptz '0001-01-02 00:00Z' AND VALUE < timestamptz '9999-12-31 00:00Z');
CREATE DOMAIN rota.run_priority AS smallint CONSTRAINT open_runs_priority CHECK (VALUE BETWEEN smallint '0' AND smallint '9');
CREATE DOMAIN rota.run_payload AS jsonb CONSTRAINT open_runs_payload CHECK (jsonb_typeof(VALUE) = 'object');
CREATE DOMAIN rota.run_key_seconds AS double precision CONSTRAINT open_runs_key_seconds CHECK (VALUE BETWEEN float8 '0' AND float8 'infinity');
CREATE DOMAIN rota.run_progress AS real CONSTRAINT open_runs_progress CHECK (VALUE BETWEEN real '0' AND real '1');
CREATE DOMAIN rota.run_timeout AS real CONSTRAINT open_runs_timeout CHECK (VALUE > real '0' AND VALUE <= real '3153600000');

ALTER TABLE rota.open_runs
    DROP CONSTRAINT open_runs_state, DROP CONSTRAINT open_runs_running, DROP CONSTRAINT open_runs_batch, DROP CONSTRAINT open_runs_held,
    DROP CONSTRAINT open_runs_attempts, DROP CONSTRAINT open_runs_instants, DROP CONSTRAINT open_runs_priority, DROP CONSTRAINT open_runs_payload,
    DROP CONSTRAINT open_runs_key_seconds, DROP CONSTRAINT open_runs_progress, DROP CONSTRAINT open_runs_timeout,
    -- Never NULL: what counts is that the values are made ones of their domains.
    ADD CONSTRAINT open_runs_sound CHECK (num_nulls(
        ROW(state, worker, started_at, claim_batch, held_by, attempts_used, max_attempts, attempt)::rota.sound_run,
        least(run_at, expires_at, scheduled_for)::rota.run_instant, greatest(run_at, expires_at, scheduled_for)::rota.run_instant,
        priority::rota.run_priority, payload::rota.run_payload, key_seconds::rota.run_key_seconds, progress::rota.run_progress,
        timeout_seconds::rota.run_timeout) IS NOT NULL);
