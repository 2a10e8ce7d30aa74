-- Enqueue: a SQL function, so that it joins the caller's transaction from any driver.
-- Errors: RO001 unknown job, RO002 bad input, RO003 the key is taken.

-- Calls whoever waits for work in this queue. Under READ COMMITTED a worker that is not
-- waiting yet will look again by itself (see claim); above it, the caller's view of the flag
-- is as old as its snapshot, so it always calls.
CREATE FUNCTION rota.wake(queues text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    called text;
BEGIN
    FOREACH called IN ARRAY queues LOOP
        IF current_setting('transaction_isolation') <> 'read committed' OR EXISTS (
            SELECT FROM rota.workers w
            WHERE w.is_waiting AND (w.queues = '{}' OR called = ANY (w.queues))
        ) THEN
            PERFORM pg_notify('rota', 'queue ' || called);
        END IF;
    END LOOP;
END $$;

-- Calls the promoters for a run that is due soon. Later than a minute needs no call: they look
-- at least that often. A moment ahead always calls: a busy worker does not say that it waits.
CREATE FUNCTION rota.wake_later(until_due interval) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF until_due <= interval '2 seconds'
       OR until_due <= interval '1 minute' AND EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting) THEN
        PERFORM pg_notify('rota', 'due');
    END IF;
END $$;

CREATE FUNCTION rota.check_options(
    job text, payload jsonb, payload_bytes integer, priority integer, max_attempts integer,
    timeout_seconds real, queue text, metadata jsonb, backoff jsonb
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of job "%" must be a JSON object of its arguments, not %', job, coalesce(jsonb_typeof(payload), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example {"user_id": 7}.';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        RAISE EXCEPTION 'the payload of job "%" has % bytes; the limit is %', job, pg_column_size(payload), payload_bytes
            USING ERRCODE = 'RO002', HINT = 'Store the data elsewhere and enqueue its address, or raise runs.payload_bytes.';
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority % of job "%" is not between 0 (first) and 9 (last)', priority, job USING ERRCODE = 'RO002';
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'max_attempts % of job "%" is not between 1 and 100', max_attempts, job USING ERRCODE = 'RO002';
    ELSIF timeout_seconds <= 0 THEN
        RAISE EXCEPTION 'timeout_seconds % of job "%" is not above 0', timeout_seconds, job USING ERRCODE = 'RO002';
    ELSIF queue = '' OR length(queue) > 100 THEN
        RAISE EXCEPTION 'the queue of job "%" needs a name of 1 to 100 characters', job USING ERRCODE = 'RO002';
    ELSIF jsonb_typeof(metadata) <> 'object' OR jsonb_typeof(backoff) <> 'object' THEN
        RAISE EXCEPTION 'metadata and backoff of job "%" must be JSON objects', job USING ERRCODE = 'RO002';
    END IF;
END $$;

CREATE FUNCTION rota.unknown_job(job text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'no job is named "%"', job
        USING ERRCODE = 'RO001', HINT = 'Jobs are registered when an application that declares them starts; rota.jobs lists them.';
END $$;

-- The one way in. on_conflict says what a taken key does: return (the first run), raise,
-- or replace (payload and options of the waiting run; a running one is never touched).
CREATE FUNCTION rota.enqueue_run(
    job text,
    payload jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    key_seconds double precision DEFAULT NULL,
    on_conflict text DEFAULT 'return',
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer DEFAULT NULL,
    OUT run_id bigint,
    OUT is_duplicate boolean
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    def    record;
    at     timestamptz;
    holder bigint;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_run.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(enqueue_run.job);
    END IF;
    PERFORM rota.check_options(enqueue_run.job, enqueue_run.payload, def.payload_bytes, enqueue_run.priority,
        enqueue_run.max_attempts, enqueue_run.timeout_seconds::real, enqueue_run.queue, enqueue_run.metadata, enqueue_run.backoff);
    IF enqueue_run.run_at IS NOT NULL AND enqueue_run.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
    ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace') THEN
        RAISE EXCEPTION 'on_conflict is "%"; it is one of return, raise, replace', enqueue_run.on_conflict USING ERRCODE = 'RO002';
    END IF;
    at := coalesce(enqueue_run.run_at, def.clock + enqueue_run.delay, def.clock);
    enqueue_run.queue := coalesce(enqueue_run.queue, def.queue);
    run_id := nextval('rota.run_ids');
    is_duplicate := false;

    IF enqueue_run.key IS NOT NULL THEN
        holder := rota.take_key(enqueue_run.tenant, enqueue_run.job, enqueue_run.key, run_id);
        IF holder <> run_id THEN
            IF enqueue_run.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'key "%" of job "%" is held by run %', enqueue_run.key, enqueue_run.job, holder
                    USING ERRCODE = 'RO003', DETAIL = holder::text;
            ELSIF enqueue_run.on_conflict = 'replace' THEN
                -- SKIP LOCKED: a row that a worker is taking right now counts as running.
                UPDATE rota.open_runs o
                SET payload = enqueue_run.payload, validated_by = enqueue_run.validated_by, queue = enqueue_run.queue,
                    priority = coalesce(enqueue_run.priority, def.priority), run_at = at,
                    state = CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END, held_by = NULL,
                    seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(), expires_at = enqueue_run.expires_at,
                    max_attempts = greatest(coalesce(enqueue_run.max_attempts, def.max_attempts), o.attempts_used + 1),
                    timeout_seconds = enqueue_run.timeout_seconds, backoff = enqueue_run.backoff,
                    tags = enqueue_run.tags, metadata = enqueue_run.metadata, key_seconds = enqueue_run.key_seconds
                WHERE o.id = (SELECT w.id FROM rota.open_runs w
                              WHERE w.id = holder AND w.state IN ('scheduled', 'queued') AND NOT w.is_suspect
                              FOR UPDATE SKIP LOCKED);
                IF FOUND AND at > def.clock THEN
                    PERFORM rota.wake_later(at - def.clock);
                ELSIF FOUND THEN
                    PERFORM rota.wake(ARRAY[enqueue_run.queue]);
                END IF;
            END IF;
            run_id := holder;
            is_duplicate := true;
            RETURN;
        END IF;
    END IF;

    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
        max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, validated_by)
    VALUES (run_id, run_id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
        enqueue_run.queue, enqueue_run.job, enqueue_run.tenant, enqueue_run.payload, coalesce(enqueue_run.priority, def.priority),
        coalesce(enqueue_run.max_attempts, def.max_attempts), enqueue_run.expires_at, enqueue_run.timeout_seconds,
        enqueue_run.key, enqueue_run.key_seconds, enqueue_run.backoff, enqueue_run.tags, enqueue_run.metadata,
        enqueue_run.triggered_by, enqueue_run.validated_by);

    IF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSE
        PERFORM rota.wake(ARRAY[enqueue_run.queue]);
    END IF;
END $$;

-- Get or create the holder of a key, never locking one that exists: the batch that ends its
-- run would wait for the caller's whole transaction. A new snapshot for every statement makes
-- the loop see a holder that ended in between.
CREATE FUNCTION rota.take_key(for_tenant text, for_job text, wanted text, taker bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    holder record;
BEGIN
    IF wanted = '' OR length(wanted) > 400 THEN
        RAISE EXCEPTION 'the key of job "%" needs 1 to 400 characters', for_job USING ERRCODE = 'RO002';
    END IF;
    LOOP
        INSERT INTO rota.keys (tenant, job, key, run_id) VALUES (for_tenant, for_job, wanted, taker)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN taker;
        END IF;
        SELECT k.run_id, k.expires_at INTO holder FROM rota.keys k
        WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted;
        IF holder.expires_at <= rota.now() THEN
            DELETE FROM rota.keys k
            WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted AND k.run_id = holder.run_id;
        ELSIF holder.run_id IS NOT NULL THEN
            RETURN holder.run_id;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION rota.enqueue(
    job text,
    payload jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    key_seconds double precision DEFAULT NULL,
    on_conflict text DEFAULT 'return',
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT r.run_id FROM rota.enqueue_run(
        enqueue.job, enqueue.payload, enqueue.queue, enqueue.priority, enqueue.run_at, enqueue.delay,
        enqueue.expires_at, enqueue.key, enqueue.key_seconds, enqueue.on_conflict, enqueue.tenant,
        enqueue.max_attempts, enqueue.timeout_seconds, enqueue.backoff, enqueue.tags, enqueue.metadata) r
$$;
COMMENT ON FUNCTION rota.enqueue IS 'Enqueues one run in the caller''s transaction and returns its id.';

-- Many at once: one statement for those without a key; those with one take the long way in
-- the order of their keys, as the finish does, so that two bulk callers cannot deadlock.
-- An array that is NULL or too short means the default. jobs of length 1 holds for all.
CREATE FUNCTION rota.enqueue_many(
    jobs text[],
    payloads jsonb[],
    queues text[] DEFAULT NULL,
    priorities integer[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL,
    delays interval[] DEFAULT NULL,
    expires_ats timestamptz[] DEFAULT NULL,
    keys text[] DEFAULT NULL,
    key_seconds double precision[] DEFAULT NULL,
    on_conflicts text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL,
    max_attempts integer[] DEFAULT NULL,
    timeouts double precision[] DEFAULT NULL,
    backoffs jsonb[] DEFAULT NULL,
    tags jsonb[] DEFAULT NULL,
    metadatas jsonb[] DEFAULT NULL,
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer[] DEFAULT NULL
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    wanted  record;
    made    record;
    touched text[];
    soonest timestamptz;
    clock   timestamptz := rota.now();
    ids     bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(payloads)]);
    twins   boolean[] := array_fill(false, ARRAY[cardinality(payloads)]);
BEGIN
    IF EXISTS (SELECT FROM unnest(run_ats, delays) AS w (run_at, delay) WHERE w.run_at IS NOT NULL AND w.delay IS NOT NULL) THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
    END IF;
    FOR wanted IN
        SELECT w.* FROM unnest(keys, tenants, payloads) WITH ORDINALITY AS w (key, tenant, payload, n)
        WHERE w.key IS NOT NULL ORDER BY coalesce(w.tenant, ''), jobs[least(w.n, cardinality(jobs))], w.key COLLATE "C", w.n
    LOOP
        SELECT * INTO made FROM rota.enqueue_run(
            job => jobs[least(wanted.n, cardinality(jobs))], payload => wanted.payload, queue => queues[wanted.n],
            priority => priorities[wanted.n], run_at => run_ats[wanted.n], delay => delays[wanted.n],
            expires_at => expires_ats[wanted.n], key => wanted.key, key_seconds => key_seconds[wanted.n],
            on_conflict => coalesce(on_conflicts[wanted.n], 'return'), tenant => coalesce(wanted.tenant, ''),
            max_attempts => max_attempts[wanted.n], timeout_seconds => timeouts[wanted.n], backoff => backoffs[wanted.n],
            tags => CASE WHEN tags[wanted.n] IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(tags[wanted.n])) END, metadata => metadatas[wanted.n],
            triggered_by => enqueue_many.triggered_by, validated_by => validated_by[wanted.n]);
        ids[wanted.n] := made.run_id;
        twins[wanted.n] := made.is_duplicate;
    END LOOP;

    WITH wanted AS MATERIALIZED (
        SELECT w.*, coalesce(w.job, jobs[1]) AS job_name, nextval('rota.run_ids') AS id,
               j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_max_attempts,
               CASE WHEN j.name IS NULL THEN rota.unknown_job(coalesce(w.job, jobs[1], '(NULL)')) END,
               rota.check_options(j.name, w.payload, s.payload_bytes, w.priority, w.max_attempts, w.timeout::real,
                                  w.queue, w.metadata, w.backoff),
               coalesce(w.run_at, clock + w.delay, clock) AS at
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, priorities, run_ats, delays, expires_ats,
                    keys, tenants, enqueue_many.max_attempts, timeouts, backoffs, enqueue_many.tags, metadatas, enqueue_many.validated_by)
             WITH ORDINALITY AS w (payload, job, queue, priority, run_at, delay, expires_at, key, tenant, max_attempts,
                                   timeout, backoff, tags, metadata, validated_by, n)
        CROSS JOIN rota.settings s
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        WHERE w.key IS NULL ORDER BY w.n
    ), inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
            max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by)
        SELECT id, id, clock, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''), payload, coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), expires_at, timeout, backoff,
            CASE WHEN tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(tags)) END, metadata,
            enqueue_many.triggered_by, validated_by
        FROM wanted ORDER BY n
        RETURNING queue, state, run_at
    )
    SELECT CASE WHEN keys IS NULL THEN (SELECT array_agg(id ORDER BY n) FROM wanted)
                ELSE (SELECT array_agg(coalesce(w.id, k.id) ORDER BY k.n)
                      FROM unnest(ids) WITH ORDINALITY AS k (id, n) LEFT JOIN wanted w ON w.n = k.n) END,
           (SELECT array_agg(DISTINCT queue) FROM inserted WHERE state = 'queued'),
           (SELECT min(run_at) FROM inserted WHERE state = 'scheduled')
    INTO ids, touched, soonest;

    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    RETURN QUERY SELECT * FROM unnest(ids, twins);
END $$;
