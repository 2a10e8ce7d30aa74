-- A claim names the tenant of each run in a column of its own, and takes the runs of a single tenant the way it takes
-- those of nobody. Both return another row than before, so they are made anew.
DROP FUNCTION rota.claim_runs(bigint, integer, text[], integer, text[], bigint[], bigint, bigint);
DROP FUNCTION rota.claim_suspect(bigint, text[], text[], text[]);

-- Claims up to max_runs for a worker, and starts its batch of before. Strict priority, then age, inside a queue;
-- queues in the given order, none gets more than its quota. Where tenants share these queues, pick_shared takes from
-- each; runs of one tenant alone, `lane` ('' is nobody's), are taken here. hints holds for each queue ten places
-- (priorities 0 to 9) up to which this worker has looked at the lane: it is for speed only, and steps over the dead
-- index entries of what was claimed before. batch NULL: the runs start with their claim; else they count as started
-- when start_batch names it in a later call. One look at worker, jobs and clock serves all. Locks rows with SKIP
-- LOCKED, so that claims never wait for one another.
-- RO006: the worker is not live.
-- Called by: sql/runs/claim.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL, lane text DEFAULT ''
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    seen record;
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock,
           EXISTS (SELECT FROM rota.workers w
                   WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS is_live,
           EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) AS has_disabled,
           -- Others than this one: two ranges of the index, the first of which nobody's lane does without.
           lane > '' AND (EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
                   AND o.tenant < lane)
               OR EXISTS (SELECT FROM rota.tenants p WHERE p.name = lane AND rota.tenant_is_paused(p)))
           OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
               AND o.tenant > lane) AS is_shared
    INTO seen FROM rota.settings s;
    IF NOT seen.is_live THEN
        PERFORM rota.check_worker(for_worker);
    ELSIF seen.has_disabled THEN
        known_jobs := rota.enabled_jobs(known_jobs);
    END IF;
    IF start_batch IS NOT NULL THEN
        INSERT INTO rota.batch_starts (worker, batch) VALUES (for_worker, start_batch);
    END IF;
    IF max_runs <= 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        (SELECT r.tid
         FROM unnest(CASE WHEN NOT seen.is_shared THEN from_queues END) WITH ORDINALITY AS q (name, n)
         CROSS JOIN LATERAL (
             SELECT o.tid
             FROM generate_series(0, 9) AS p (priority)
             CROSS JOIN LATERAL (
                 SELECT o.ctid AS tid FROM rota.open_runs o
                 WHERE o.is_ready AND o.worker IS NULL AND o.queue = q.name AND o.tenant = lane
                   AND o.priority = p.priority::smallint
                   AND o.seq > coalesce(hints[(q.n - 1) * 10 + p.priority + 1], 0) AND o.job = ANY (known_jobs)
                 ORDER BY o.seq LIMIT quota FOR UPDATE SKIP LOCKED
             ) o
             LIMIT quota
         ) r
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
        UNION ALL
        (SELECT r.tid
         FROM unnest(CASE WHEN seen.is_shared THEN from_queues END) AS q (name)
         CROSS JOIN LATERAL rota.pick_shared(q.name, quota, known_jobs) AS r (tid)
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = seen.clock,
        claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload,
        o.validated_by, o.timeout_seconds, o.expires_at <= seen.clock, o.is_suspect, o.enqueued_at, seen.clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                'run_at', o.run_at) END,
        o.tenant;
END $$;

-- One suspect for a worker that isolates none. inline_jobs are those that this worker can only run in its own
-- process. Asked again before the attempt has ended, it answers the same run: the first answer may have been lost.
-- Called by: sql/runs/claim_suspect.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[],
    inline_jobs text[] DEFAULT '{}')
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    chosen bigint;
BEGIN
    PERFORM rota.check_worker(for_worker);
    SELECT rota.isolating_of(w) INTO chosen FROM rota.workers w WHERE w.id = for_worker;
    IF chosen IS NULL THEN
        known_jobs := rota.enabled_jobs(known_jobs);
        IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect' AND o.job = ANY (inline_jobs))
           AND NOT rota.may_isolate_inline(for_worker) THEN
            known_jobs := ARRAY(SELECT k FROM unnest(known_jobs) k WHERE k <> ALL (inline_jobs));
        END IF;
        UPDATE rota.open_runs o
        SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, held_by = NULL
        WHERE o.id = (
            SELECT w.id FROM rota.open_runs w
            WHERE w.held_by = 'suspect' AND w.state = 'queued' AND w.job = ANY (known_jobs)
              AND (from_queues = '{}' OR w.queue = ANY (from_queues))
              AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND rota.queue_is_paused(s))
              AND NOT EXISTS (SELECT FROM rota.tenants t WHERE t.name = w.tenant AND rota.tenant_is_paused(t))
            ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING o.id INTO chosen;
        IF chosen IS NULL THEN
            RETURN;
        END IF;
        UPDATE rota.workers w SET isolating_run = o.id, isolating_attempt = o.attempt,
            is_isolating_inline = o.job = ANY (inline_jobs)
        FROM rota.open_runs o WHERE o.id = chosen AND w.id = for_worker;
    END IF;
    RETURN QUERY
    SELECT o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload,
        o.validated_by, o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, o.started_at,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                'run_at', o.run_at) END,
        o.tenant
    FROM rota.open_runs o WHERE o.id = chosen;
END $$;
