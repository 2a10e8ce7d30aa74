-- Two bolder shapes beside today's tables, as far as a drain needs them. Both write their history where Rota does, or as it would.

CREATE SCHEMA bold;

-- Claims as ranges: one row says who has which stretch of a lane; the runs themselves stay as they are until they end.
CREATE TABLE bold.open_runs (LIKE rota.open_runs INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS);
ALTER TABLE bold.open_runs ADD PRIMARY KEY (id);
CREATE INDEX ON bold.open_runs (queue, priority, seq) WHERE is_ready;
CREATE TABLE bold.lanes (queue text, priority smallint, reached bigint NOT NULL DEFAULT 0, PRIMARY KEY (queue, priority)) WITH (fillfactor = 10);
CREATE TABLE bold.claims (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker bigint NOT NULL, queue text NOT NULL, priority smallint NOT NULL,
    first bigint NOT NULL, last bigint NOT NULL, started_at timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION bold.claim_range(for_worker bigint, of_queue text, of_priority integer, most integer, OUT claim bigint, OUT ids bigint[], OUT payloads jsonb[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    place bigint;
    upto  bigint;
BEGIN
    SELECT reached INTO place FROM bold.lanes WHERE queue = of_queue AND priority = of_priority FOR UPDATE;
    SELECT array_agg(o.id), array_agg(o.payload), max(o.seq) INTO ids, payloads, upto FROM (
        SELECT r.id, r.payload, r.seq FROM bold.open_runs r
        WHERE r.is_ready AND r.queue = of_queue AND r.priority = of_priority AND r.seq > place ORDER BY r.seq LIMIT most) o;
    IF upto IS NULL THEN
        RETURN;
    END IF;
    UPDATE bold.lanes SET reached = upto WHERE queue = of_queue AND priority = of_priority;
    INSERT INTO bold.claims (worker, queue, priority, first, last, started_at)
    VALUES (for_worker, of_queue, of_priority, place + 1, upto, statement_timestamp()) RETURNING id INTO claim;
END $$;

-- The claim's row is the fence: whoever lost it ends nothing.
CREATE FUNCTION bold.end_range(for_worker bigint, of_claim bigint, durations_us bigint[]) RETURNS bigint
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    held  record;
    moved bigint;
BEGIN
    DELETE FROM bold.claims c WHERE c.id = of_claim AND c.worker = for_worker RETURNING c.* INTO held;
    WITH ended AS (
        DELETE FROM bold.open_runs o
        WHERE o.is_ready AND o.queue = held.queue AND o.priority = held.priority AND o.seq BETWEEN held.first AND held.last
        RETURNING o.*
    )
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
        max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, tags, metadata, triggered_by, keep_class)
    SELECT id, created_at, run_at, held.started_at, statement_timestamp(), for_worker, attempt + 1, durations_us[1] / real '1000',
        attempts_used + 1, max_attempts, priority, is_suspect, 'succeeded', 'succeeded', queue, job, tenant, payload, tags, metadata,
        triggered_by, 'standard'
    FROM ended;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- Immutable runs: the row is written once, where it stays; a thin entry of its lane is claimed and removed; the ends of a batch
-- are one row, folded into the runs later.
CREATE TABLE bold.runs (LIKE rota.open_runs INCLUDING DEFAULTS INCLUDING CONSTRAINTS, finished_at timestamptz, duration_ms real, result jsonb, end_reason text)
    WITH (fillfactor = 80);
ALTER TABLE bold.runs DROP COLUMN is_ready, DROP COLUMN is_future;
ALTER TABLE bold.runs DROP CONSTRAINT open_runs_state, DROP CONSTRAINT open_runs_running, DROP CONSTRAINT open_runs_attempts;
ALTER TABLE bold.runs ADD PRIMARY KEY (id);
CREATE INDEX ON bold.runs (job, id);
CREATE TABLE bold.entries (
    id bigint NOT NULL, seq bigint NOT NULL, worker bigint, started_at timestamptz, attempt integer NOT NULL DEFAULT 0, priority smallint NOT NULL,
    queue text COLLATE "C" NOT NULL
) WITH (fillfactor = 45);
CREATE INDEX entries_claim ON bold.entries (queue, priority, seq);
CREATE TABLE bold.ends (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker bigint NOT NULL, attempt integer NOT NULL, first_id bigint NOT NULL,
    last_id bigint NOT NULL, started_at timestamptz NOT NULL, finished_at timestamptz NOT NULL, durations_us bigint[] NOT NULL, results jsonb[]
);

CREATE FUNCTION bold.claim_entries(for_worker bigint, of_queue text, of_priority integer, hint bigint, most integer)
RETURNS TABLE (id bigint, seq bigint, attempt integer, payload jsonb)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH taken AS (
        UPDATE bold.entries e SET worker = for_worker, attempt = e.attempt + 1, started_at = statement_timestamp()
        WHERE e.ctid = ANY (ARRAY(SELECT p.ctid FROM bold.entries p WHERE p.queue = of_queue AND p.priority = of_priority
                                  AND p.seq > hint AND p.worker IS NULL ORDER BY p.seq LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING e.id, e.seq, e.attempt
    )
    SELECT t.id, t.seq, t.attempt, r.payload FROM taken t JOIN bold.runs r ON r.id = ANY (ARRAY[t.id]);
END $$;

CREATE FUNCTION bold.end_entries(for_worker bigint, of_queue text, of_priority integer, first bigint, last bigint, of_attempt integer, durations_us bigint[])
RETURNS bigint LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM bold.entries e WHERE e.queue = of_queue AND e.priority = of_priority AND e.seq BETWEEN first AND last
        AND e.worker = for_worker AND e.attempt = of_attempt;
    GET DIAGNOSTICS gone = ROW_COUNT;
    INSERT INTO bold.ends (worker, attempt, first_id, last_id, started_at, finished_at, durations_us)
    VALUES (for_worker, of_attempt, first, last, statement_timestamp(), statement_timestamp(), durations_us);
    RETURN gone;
END $$;

-- What upkeep would do some time after the drain.
CREATE FUNCTION bold.fold() RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    one   record;
    moved bigint := 0;
    part  bigint;
BEGIN
    FOR one IN DELETE FROM bold.ends RETURNING * LOOP
        UPDATE bold.runs r SET state = 'succeeded', worker = one.worker, attempt = one.attempt, attempts_used = r.attempts_used + 1,
            started_at = one.started_at, finished_at = one.finished_at, duration_ms = one.durations_us[r.id - one.first_id + 1] / real '1000'
        WHERE r.id BETWEEN one.first_id AND one.last_id;
        GET DIAGNOSTICS part = ROW_COUNT;
        moved := moved + part;
    END LOOP;
    RETURN moved;
END $$;
