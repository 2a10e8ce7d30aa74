-- A queue may be paused until a time. From then on it is open for everybody who looks, whether or not a worker has been there to
-- write it down: readers compare the time, and the promoters, which sleep until the next run is due, wake up for it too.

ALTER TABLE rota.queues ADD COLUMN paused_until timestamptz;
COMMENT ON COLUMN rota.queues.paused_until IS 'it goes on by itself then; NULL: when somebody resumes it';
CREATE INDEX queues_paused_until ON rota.queues (paused_until) WHERE paused_until IS NOT NULL;
SELECT rota.guard_values('rota.queues', true);

CREATE FUNCTION rota.queue_is_paused(q rota.queues) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT q.is_paused AND (q.paused_until IS NULL OR q.paused_until > rota.now())
$$;

-- Pausing a paused queue again moves its end.
DROP FUNCTION rota.pause_queue(text, text, text);
CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_queue.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   rota.queues;
BEGIN
    IF pause_queue.until <= clock THEN
        RAISE EXCEPTION 'queue "%": a pause ends in the future, not at %', pause_queue.queue, pause_queue.until USING ERRCODE = 'RO002';
    END IF;
    SELECT * INTO was FROM rota.queues q WHERE q.name = pause_queue.queue FOR UPDATE;
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_queue.queue, true, clock, who, pause_queue.reason, pause_queue.until)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_by = excluded.paused_by, paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.queue_is_paused(q) THEN q.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.queue_is_paused(q) THEN coalesce(excluded.pause_reason, q.pause_reason) ELSE excluded.pause_reason END
    WHERE NOT rota.queue_is_paused(q) OR q.paused_until IS DISTINCT FROM excluded.paused_until;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is already paused', pause_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(who, 'queue.paused', 'queue', pause_queue.queue,
        CASE WHEN rota.queue_is_paused(was) THEN jsonb_build_object('is_paused', true, 'paused_until', was.paused_until) END,
        jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until', pause_queue.until)), pause_queue.reason);
    PERFORM rota.wake_later(pause_queue.until - clock) WHERE pause_queue.until IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL
    WHERE q.name = resume_queue.queue AND rota.queue_is_paused(q);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is not paused', resume_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(resume_queue.actor, 'queue.resumed', 'queue', resume_queue.queue, '{"is_paused": true}', '{"is_paused": false}', resume_queue.reason);
    PERFORM rota.wake(ARRAY[resume_queue.queue]);
END $$;

-- Writes down which pauses are over and calls who waits. Answers the seconds until the next one is.
CREATE FUNCTION rota.end_pauses(clock timestamptz) RETURNS double precision LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    over record;
BEGIN
    FOR over IN
        SELECT q.name, q.paused_until FROM rota.queues q WHERE q.is_paused AND q.paused_until <= clock ORDER BY q.name FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL
        WHERE q.name = over.name;
        PERFORM rota.write_audit('rota', 'queue.resumed', 'queue', over.name,
            jsonb_build_object('is_paused', true, 'paused_until', over.paused_until), '{"is_paused": false}', 'its pause was over');
        PERFORM rota.wake(ARRAY[over.name]);
    END LOOP;
    RETURN (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q WHERE q.is_paused AND q.paused_until > clock);
END $$;

-- As before (0045), and it wakes up for the end of a pause.
CREATE OR REPLACE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp()
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO promoted, touched FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future AND o.run_at > clock AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1;
    IF promoted < max_runs AND EXISTS (SELECT FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock) THEN
        next_due_seconds := least(next_due_seconds, 0.25);
    END IF;
    IF EXISTS (SELECT FROM rota.queues q WHERE q.paused_until IS NOT NULL) THEN
        next_due_seconds := least(next_due_seconds, rota.end_pauses(clock));
    END IF;
END $$;

-- As before (0016). Only of a queue that is marked as paused the time is compared.
CREATE OR REPLACE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    seen record;
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock,
           EXISTS (SELECT FROM rota.workers w
                   WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS is_live,
           EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) AS has_disabled
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
        WHERE NOT EXISTS (SELECT FROM rota.queues s
                          WHERE s.name = q.name AND s.is_paused AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
        LIMIT max_runs
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = seen.clock, claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= seen.clock, o.is_suspect, o.enqueued_at, seen.clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END;
END $$;

-- As before (0033).
CREATE OR REPLACE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[], inline_jobs text[] DEFAULT '{}')
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
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
            ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING o.id INTO chosen;
        IF chosen IS NULL THEN
            RETURN;
        END IF;
        UPDATE rota.workers w SET isolating_run = o.id, isolating_attempt = o.attempt, is_isolating_inline = o.job = ANY (inline_jobs)
        FROM rota.open_runs o WHERE o.id = chosen AND w.id = for_worker;
    END IF;
    RETURN QUERY
    SELECT o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, o.started_at,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END
    FROM rota.open_runs o WHERE o.id = chosen;
END $$;
