-- Workers: their life, what they claim, and how their claims go back.
-- Plans are pinned by settings on the functions: a plan cached while the table was tiny must
-- not scan a million rows an hour later.

CREATE FUNCTION rota.register_worker(
    name text, host text, pid integer, version text, queues text[], jobs text[],
    concurrency integer, lease_seconds double precision
) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.workers (name, host, pid, version, queues, jobs, concurrency, lease_seconds, lease_expires_at)
    VALUES (register_worker.name, register_worker.host, register_worker.pid, register_worker.version,
            register_worker.queues, register_worker.jobs, register_worker.concurrency, register_worker.lease_seconds,
            clock_timestamp() + make_interval(secs => register_worker.lease_seconds))
    RETURNING id
$$;

-- Renews the lease and answers false to a worker that was declared lost. A lease that ran out
-- while nobody rescued is still its own: rescue marks the worker before it takes a row.
CREATE FUNCTION rota.beat(for_worker bigint, stuck boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.workers
    SET heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp() + make_interval(secs => lease_seconds),
        is_stuck = stuck
    WHERE id = for_worker AND state IN ('live', 'stopping');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM rota.batch_starts b
    WHERE b.worker = for_worker AND b.batch < (SELECT max(n.batch) FROM rota.batch_starts n WHERE n.worker = for_worker);
    RETURN true;
END $$;

-- Claims up to max_runs. Strict priority, then age, inside a queue; queues in the given order, none
-- gets more than quota. hints holds for each queue ten places (priorities 0 to 9) up to which
-- this worker has already looked: speed only, it steps over the dead index entries of what was
-- claimed before. batch NULL: the runs start with their claim; else they count as started when
-- start_batch names it in a later call. RO006: the worker is not live.
CREATE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    PERFORM rota.check_worker(for_worker);
    known_jobs := rota.enabled_jobs(known_jobs);
    IF start_batch IS NOT NULL THEN
        INSERT INTO rota.batch_starts (worker, batch) VALUES (for_worker, start_batch);
    END IF;
    IF max_runs <= 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        SELECT r.tid
        FROM unnest(from_queues) WITH ORDINALITY AS q (name, n)
        CROSS JOIN LATERAL (
            SELECT o.tid
            FROM generate_series(0, 9) AS p (priority)
            CROSS JOIN LATERAL (
                SELECT o.ctid AS tid FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue = q.name AND o.priority = p.priority::smallint
                  AND o.seq > coalesce(hints[(q.n - 1) * 10 + p.priority + 1], 0) AND o.job = ANY (known_jobs)
                ORDER BY o.seq LIMIT quota FOR UPDATE SKIP LOCKED
            ) o
            LIMIT quota
        ) r
        WHERE NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = q.name AND s.is_paused)
        LIMIT max_runs
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END;
END $$;

CREATE FUNCTION rota.check_worker(for_worker bigint) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM rota.workers w WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % is not live', for_worker USING ERRCODE = 'RO006';
    END IF;
END $$;

-- Without those that an operator disabled: one probe while there are none.
CREATE FUNCTION rota.enabled_jobs(names text[]) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) THEN
        RETURN names;
    END IF;
    RETURN ARRAY(SELECT n FROM unnest(names) n WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = n AND NOT j.is_enabled));
END $$;

-- A run whose worker died with it is taken alone, when nothing else is in flight.
CREATE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[])
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    PERFORM rota.check_worker(for_worker);
    known_jobs := rota.enabled_jobs(known_jobs);
    RETURN QUERY
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, held_by = NULL
    WHERE o.id = (
        SELECT w.id FROM rota.open_runs w
        WHERE w.held_by = 'suspect' AND w.state = 'queued' AND w.job = ANY (known_jobs)
          AND (from_queues = '{}' OR w.queue = ANY (from_queues))
          AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND s.is_paused)
        ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END;
END $$;

-- The queues that hold work: one index probe for each, however many rows wait in them.
CREATE FUNCTION rota.busy_queues() RETURNS SETOF text LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    WITH RECURSIVE found AS (
        (SELECT queue FROM rota.open_runs WHERE is_ready AND worker IS NULL ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT o.queue FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue > f.queue ORDER BY o.queue LIMIT 1)
        FROM found f WHERE f.queue IS NOT NULL
    )
    SELECT queue FROM found WHERE queue IS NOT NULL
$$;

-- Claimed and not started: back to its place in the line, no attempt spent.
CREATE FUNCTION rota.hand_back_runs(for_worker bigint, ids bigint[], attempts integer[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE rota.open_runs o
    SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL,
        held_by = CASE WHEN o.is_suspect THEN 'suspect' END
    FROM unnest(ids, attempts) AS h (id, attempt)
    WHERE o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.worker = for_worker
    RETURNING o.id;
    -- Somebody asked to cancel it while it was claimed: its next attempt would not know.
    PERFORM rota.end_waiting_runs(ARRAY[c.run_id], 'cancelled', 'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, ''))
    FROM unnest(ids, attempts) AS h (id, attempt)
    JOIN rota.cancel_requests c ON c.run_id = h.id AND c.attempt = h.attempt
    JOIN rota.open_runs o ON o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.state = 'queued';
END $$;

-- The state of the hand-shake that loses no wake-up: a worker sets its flag, commits, notes
-- the next transaction id, and claims again until every transaction before it has ended.
CREATE FUNCTION rota.set_waiting(for_worker bigint, waiting boolean) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE rota.workers SET is_waiting = waiting WHERE id = for_worker AND state IN ('live', 'stopping') AND is_waiting <> waiting
$$;
