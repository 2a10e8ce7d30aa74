-- Says what is wrong with a payload that a cheap look found wrong; in the place of the payload, so
-- that no planner leaves it out.
CREATE FUNCTION rota.refuse_payload(job text, payload jsonb, payload_bytes integer) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM rota.check_options(job, payload, payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL);
    RETURN payload;
END $$;

-- Many runs of one job with one set of options: what bulk callers nearly always want. One look at
-- the job and one check of the options serve all of them, so that a row costs little more than its
-- insert. Keys are enqueue_many's: each of them is a get-or-create of its own.
CREATE FUNCTION rota.enqueue_batch(
    job text,
    payloads jsonb,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    def   record;
    at    timestamptz;
    ids   bigint[];
    lane  text;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_batch.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(coalesce(enqueue_batch.job, '(NULL)'));
    ELSIF jsonb_typeof(payloads) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payloads of job "%" must be a JSON array of objects', job USING ERRCODE = 'RO002';
    ELSIF enqueue_batch.run_at IS NOT NULL AND enqueue_batch.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
    END IF;
    PERFORM rota.check_options(enqueue_batch.job, '{}', def.payload_bytes, enqueue_batch.priority, enqueue_batch.max_attempts,
        enqueue_batch.timeout_seconds::real, enqueue_batch.queue, enqueue_batch.metadata, enqueue_batch.backoff);
    at := coalesce(enqueue_batch.run_at, def.clock + enqueue_batch.delay, def.clock);
    lane := coalesce(enqueue_batch.queue, def.queue);

    WITH inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
            max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by)
        SELECT id, id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
            lane, enqueue_batch.job, coalesce(enqueue_batch.tenant, ''), payload, coalesce(enqueue_batch.priority, def.priority),
            coalesce(enqueue_batch.max_attempts, def.max_attempts), enqueue_batch.expires_at, enqueue_batch.timeout_seconds,
            enqueue_batch.backoff, enqueue_batch.tags, enqueue_batch.metadata, enqueue_batch.triggered_by, enqueue_batch.validated_by
        FROM (
            SELECT nextval('rota.run_ids') AS id,
                   CASE WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes THEN p.value
                        ELSE rota.refuse_payload(enqueue_batch.job, p.value, def.payload_bytes) END AS payload
            FROM jsonb_array_elements(payloads) AS p (value)
        ) wanted
        RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO ids FROM inserted;

    IF ids = '{}' THEN
        RETURN ids;
    ELSIF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSE
        PERFORM rota.wake(ARRAY[lane]);
    END IF;
    RETURN ids;
END $$;
COMMENT ON FUNCTION rota.enqueue_batch IS 'Enqueues many runs of one job, one for each payload, and returns their ids in that order.';

-- As before (0004), with one look at worker, jobs and clock instead of three calls: on an idle
-- worker the run waits for each of them.
CREATE OR REPLACE FUNCTION rota.claim_runs(
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
        WHERE NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = q.name AND s.is_paused)
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
