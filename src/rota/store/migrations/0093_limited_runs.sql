-- What enqueues, ends and moves runs, with limits. A run without one goes the way it went.

-- As before, but a run under a limit waits for its admission.
CREATE OR REPLACE FUNCTION rota.enqueue_run(
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
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer DEFAULT NULL,
    OUT run_id bigint,
    OUT is_duplicate boolean
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    def    record;
    at     timestamptz;
    holder bigint;
    keys   text[];
    freed  text[];
    o_found boolean;
    is_burst boolean := false;
    latest timestamptz;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock, s.has_limits INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_run.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(enqueue_run.job);
    END IF;
    -- Most enqueues have no options, and a small payload or one that was looked at. Each expression costs about a
    -- microsecond in each transaction, so that they are asked for in one.
    IF num_nonnulls(enqueue_run.queue, enqueue_run.priority, enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at,
            enqueue_run.key_seconds, enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.backoff, enqueue_run.tags,
            enqueue_run.metadata) > 0
       OR (enqueue_run.on_conflict = 'return' AND enqueue_run.tenant = '' AND jsonb_typeof(enqueue_run.payload) = 'object'
           AND pg_column_size(enqueue_run.payload) <= def.payload_bytes
           AND (enqueue_run.validated_by IS NOT NULL OR octet_length(enqueue_run.payload::text) <= 200)) IS NOT TRUE
    THEN
        PERFORM rota.check_options(enqueue_run.job, enqueue_run.payload, def.payload_bytes, enqueue_run.priority,
            enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.queue, enqueue_run.metadata, enqueue_run.backoff,
            enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at, enqueue_run.key_seconds, enqueue_run.tags, enqueue_run.tenant,
            enqueue_run.validated_by IS NOT NULL);
        IF enqueue_run.run_at IS NOT NULL AND enqueue_run.delay IS NOT NULL THEN
            RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace', 'debounce', 'throttle') THEN
            RAISE EXCEPTION 'on_conflict is "%"; it is one of return, raise, replace, debounce, throttle', enqueue_run.on_conflict USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict = 'debounce' AND (enqueue_run.key IS NULL OR enqueue_run.delay IS NULL) THEN
            RAISE EXCEPTION 'debounce needs a key, and a delay: the quiet time' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict = 'throttle' AND (enqueue_run.key IS NULL OR enqueue_run.key_seconds IS NULL) THEN
            RAISE EXCEPTION 'throttle needs a key, and key_seconds: the period' USING ERRCODE = 'RO002';
        END IF;
        is_burst := enqueue_run.on_conflict IN ('debounce', 'throttle');
    END IF;
    at := coalesce(enqueue_run.run_at, def.clock + enqueue_run.delay, def.clock);
    enqueue_run.queue := coalesce(enqueue_run.queue, def.queue);
    IF def.has_limits THEN
        keys := rota.limit_keys_of(enqueue_run.job, enqueue_run.queue, enqueue_run.tenant, NULL, enqueue_run.payload);
    END IF;
    run_id := nextval('rota.run_ids');
    is_duplicate := false;

    IF enqueue_run.key IS NOT NULL THEN
        holder := rota.take_key(enqueue_run.tenant, enqueue_run.job, enqueue_run.key, run_id);
        IF enqueue_run.on_conflict = 'debounce' THEN
            -- Whoever else is of the burst waits here. Nobody waits longer than the longest wait after the first.
            SELECT k.run_id INTO holder FROM rota.keys k
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key FOR UPDATE;
            latest := rota.after(coalesce((SELECT o.created_at FROM rota.open_runs o WHERE o.id = holder AND o.state = 'scheduled'), def.clock),
                                 coalesce(enqueue_run.key_seconds, 3153600000));
            at := least(at, latest);
        END IF;
        IF holder <> run_id THEN
            IF enqueue_run.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'key "%" of job "%" is held by run %', enqueue_run.key, enqueue_run.job, holder
                    USING ERRCODE = 'RO003', DETAIL = holder::text;
            ELSIF enqueue_run.on_conflict IN ('replace', 'debounce') THEN
                -- SKIP LOCKED: a row that a worker is taking right now counts as running.
                UPDATE rota.open_runs o
                SET payload = enqueue_run.payload, validated_by = enqueue_run.validated_by, queue = enqueue_run.queue,
                    priority = coalesce(enqueue_run.priority, def.priority), run_at = at,
                    state = CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
                    held_by = CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, limit_keys = keys, limit_key = keys[1], slots = NULL,
                    seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(), expires_at = enqueue_run.expires_at,
                    max_attempts = greatest(coalesce(enqueue_run.max_attempts, def.max_attempts), o.attempts_used + 1),
                    timeout_seconds = enqueue_run.timeout_seconds, backoff = enqueue_run.backoff,
                    tags = enqueue_run.tags, metadata = enqueue_run.metadata, key_seconds = CASE WHEN NOT is_burst THEN enqueue_run.key_seconds END
                FROM (SELECT w.id, w.slots FROM rota.open_runs w
                      WHERE w.id = holder AND (w.state = 'scheduled' AND (w.attempt = 0 OR NOT is_burst) OR w.state = 'queued' AND NOT is_burst) AND NOT w.is_suspect
                      FOR UPDATE SKIP LOCKED) AS was
                WHERE o.id = was.id
                RETURNING was.slots INTO freed;
                o_found := FOUND;
                IF freed IS NOT NULL THEN
                    PERFORM rota.release_slots(freed);
                END IF;
                IF o_found AND at > def.clock THEN
                    PERFORM rota.wake_later(at - def.clock);
                ELSIF o_found AND keys IS NOT NULL THEN
                    PERFORM rota.wake_admission();
                ELSIF o_found THEN
                    PERFORM rota.wake(ARRAY[enqueue_run.queue]);
                END IF;
            END IF;
            IF enqueue_run.on_conflict <> 'debounce' OR o_found THEN
                run_id := holder;
                is_duplicate := true;
                RETURN;
            END IF;
            -- The last burst has its run already: this one begins another.
            at := least(def.clock + enqueue_run.delay, rota.after(def.clock, coalesce(enqueue_run.key_seconds, 3153600000)));
        END IF;
        IF is_burst THEN
            -- The key is the burst's, and not the run's: it holds for its time, whenever the run ends.
            UPDATE rota.keys k SET run_id = enqueue_run.run_id,
                expires_at = CASE WHEN enqueue_run.on_conflict = 'throttle' THEN rota.after(def.clock, enqueue_run.key_seconds) ELSE at + interval '1 day' END
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key;
            enqueue_run.key := NULL;
            enqueue_run.key_seconds := NULL;
        END IF;
    END IF;

    IF enqueue_run.tenant <> '' THEN
        PERFORM rota.check_quota(enqueue_run.tenant, 1, octet_length(enqueue_run.payload::text));
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
        max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, validated_by, limit_keys, limit_key,
        held_by)
    VALUES (run_id, run_id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
        enqueue_run.queue, enqueue_run.job, enqueue_run.tenant, enqueue_run.payload, coalesce(enqueue_run.priority, def.priority),
        coalesce(enqueue_run.max_attempts, def.max_attempts), enqueue_run.expires_at, enqueue_run.timeout_seconds,
        enqueue_run.key, enqueue_run.key_seconds, enqueue_run.backoff, enqueue_run.tags, enqueue_run.metadata,
        enqueue_run.triggered_by, enqueue_run.validated_by, keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END);

    IF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[enqueue_run.queue]);
    END IF;
END $$;

-- As before; where there are limits, enqueue_run looks for them.
CREATE OR REPLACE FUNCTION rota.enqueue_plain(
    job text, payload jsonb, queue text DEFAULT NULL, priority integer DEFAULT NULL, triggered_by jsonb DEFAULT NULL, validated_by integer DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made record;
BEGIN
    SELECT nextval('rota.run_ids') AS id, statement_timestamp() + s.clock_offset AS clock, coalesce(enqueue_plain.queue, j.queue) AS queue,
        coalesce(enqueue_plain.priority, j.priority) AS priority, j.max_attempts INTO made
    FROM rota.jobs j, rota.settings s
    WHERE j.name = enqueue_plain.job AND jsonb_typeof(enqueue_plain.payload) = 'object' AND pg_column_size(enqueue_plain.payload) <= s.payload_bytes
      AND (enqueue_plain.validated_by IS NOT NULL OR octet_length(enqueue_plain.payload::text) <= 200)
      AND NOT (s.has_limits AND EXISTS (SELECT FROM rota.limits l WHERE l.jobs IS NULL OR enqueue_plain.job = ANY (l.jobs)))
      AND (enqueue_plain.priority BETWEEN 0 AND 9) IS NOT FALSE AND (length(enqueue_plain.queue) BETWEEN 1 AND 100) IS NOT FALSE;
    IF NOT FOUND THEN
        RETURN (SELECT r.run_id FROM rota.enqueue_run(enqueue_plain.job, enqueue_plain.payload, enqueue_plain.queue, enqueue_plain.priority,
            triggered_by => enqueue_plain.triggered_by, validated_by => enqueue_plain.validated_by) r);
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, payload, priority, max_attempts, triggered_by, validated_by)
    VALUES (made.id, made.id, made.clock, clock_timestamp(), made.clock, 'queued', made.queue, enqueue_plain.job, enqueue_plain.payload,
        made.priority, made.max_attempts, enqueue_plain.triggered_by, enqueue_plain.validated_by);
    -- Where nobody waits there is nobody to choose from.
    IF EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting) OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM rota.wake(ARRAY[made.queue]);
    END IF;
    RETURN made.id;
END $$;

-- As before, but runs under limits wait for their admission.
CREATE OR REPLACE FUNCTION rota.enqueue_batch(
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
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    def   record;
    at    timestamptz;
    ids   bigint[];
    lane  text;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock,
        s.has_limits AND EXISTS (SELECT FROM rota.limits l WHERE l.jobs IS NULL OR enqueue_batch.job = ANY (l.jobs)) AS has_limits INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_batch.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(coalesce(enqueue_batch.job, '(NULL)'));
    ELSIF jsonb_typeof(payloads) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payloads of job "%" must be a JSON array of objects', job USING ERRCODE = 'RO002';
    ELSIF enqueue_batch.run_at IS NOT NULL AND enqueue_batch.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
    END IF;
    PERFORM rota.check_options(enqueue_batch.job, '{}', def.payload_bytes, enqueue_batch.priority, enqueue_batch.max_attempts,
        enqueue_batch.timeout_seconds, enqueue_batch.queue, enqueue_batch.metadata, enqueue_batch.backoff, enqueue_batch.run_at,
        enqueue_batch.delay, enqueue_batch.expires_at, NULL, enqueue_batch.tags, enqueue_batch.tenant);
    at := coalesce(enqueue_batch.run_at, def.clock + enqueue_batch.delay, def.clock);
    lane := coalesce(enqueue_batch.queue, def.queue);
    IF enqueue_batch.tenant <> '' THEN
        PERFORM rota.check_quota(enqueue_batch.tenant, jsonb_array_length(payloads), octet_length(payloads::text));
    END IF;

    WITH inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
            max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by, limit_keys, limit_key, held_by)
        SELECT id, id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
            lane, enqueue_batch.job, coalesce(enqueue_batch.tenant, ''), payload, coalesce(enqueue_batch.priority, def.priority),
            coalesce(enqueue_batch.max_attempts, def.max_attempts), enqueue_batch.expires_at, enqueue_batch.timeout_seconds,
            enqueue_batch.backoff, enqueue_batch.tags, enqueue_batch.metadata, enqueue_batch.triggered_by, enqueue_batch.validated_by,
            keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END
        FROM (SELECT w.*, CASE WHEN def.has_limits THEN rota.limit_keys_of(enqueue_batch.job, lane, coalesce(enqueue_batch.tenant, ''), NULL, w.payload) END AS keys FROM (
            SELECT nextval('rota.run_ids') AS id,
                   CASE WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes
                             AND (enqueue_batch.validated_by IS NOT NULL OR rota.is_plain_json(p.value)) THEN p.value
                        ELSE rota.refuse_payload(enqueue_batch.job, p.value, def.payload_bytes) END AS payload
            FROM jsonb_array_elements(payloads) AS p (value)
        ) w) wanted
        RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO ids FROM inserted;

    IF ids = '{}' THEN
        RETURN ids;
    ELSIF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSE
        IF def.has_limits THEN
            PERFORM rota.wake_admission();
        END IF;
        PERFORM rota.wake(ARRAY[lane]);
    END IF;
    RETURN ids;
END $$;

-- As before, but runs under limits wait for their admission.
CREATE OR REPLACE FUNCTION rota.enqueue_many(
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
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer[] DEFAULT NULL
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted  record;
    made    record;
    touched text[];
    soonest timestamptz;
    clock   timestamptz := rota.now();
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
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

    IF tenants IS NOT NULL THEN
        PERFORM rota.check_quota(q.tenant, q.runs, q.bytes)
        FROM (SELECT w.tenant, count(*) AS runs, sum(octet_length(w.payload::text)) AS bytes FROM unnest(tenants, payloads, keys) AS w (tenant, payload, key)
              WHERE w.tenant <> '' AND w.key IS NULL AND w.payload IS NOT NULL GROUP BY w.tenant ORDER BY w.tenant) q;
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT w.*, t.tag_list, coalesce(w.job, jobs[1]) AS job_name, nextval('rota.run_ids') AS id,
               j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_max_attempts,
               CASE WHEN j.name IS NULL THEN rota.unknown_job(coalesce(w.job, jobs[1], '(NULL)')) END,
               rota.check_options(j.name, w.payload, s.payload_bytes, w.priority, w.max_attempts, w.timeout, w.queue, w.metadata, w.backoff,
                                  w.run_at, w.delay, w.expires_at, NULL, t.tag_list, w.tenant, w.validated_by IS NOT NULL),
               coalesce(w.run_at, clock + w.delay, clock) AS at
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, priorities, run_ats, delays, expires_ats,
                    keys, tenants, enqueue_many.max_attempts, timeouts, backoffs, enqueue_many.tags, metadatas, enqueue_many.validated_by)
             WITH ORDINALITY AS w (payload, job, queue, priority, run_at, delay, expires_at, key, tenant, max_attempts,
                                   timeout, backoff, tags, metadata, validated_by, n)
        CROSS JOIN rota.settings s
        CROSS JOIN LATERAL (SELECT CASE WHEN w.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(w.tags)) END AS tag_list) t
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        WHERE w.key IS NULL ORDER BY w.n
    ), inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
            max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by, limit_keys, limit_key, held_by)
        SELECT id, id, clock, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''), payload, coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), expires_at, timeout, backoff,
            tag_list, metadata,
            enqueue_many.triggered_by, validated_by, keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END
        FROM (SELECT w.*, CASE WHEN limited THEN rota.limit_keys_of(w.job_name, coalesce(w.queue, w.job_queue), coalesce(w.tenant, ''), NULL, w.payload) END AS keys
              FROM wanted w) w ORDER BY n
        RETURNING queue, state, run_at
    )
    SELECT CASE WHEN keys IS NULL THEN (SELECT array_agg(id ORDER BY n) FROM wanted)
                ELSE (SELECT array_agg(coalesce(w.id, k.id) ORDER BY k.n)
                      FROM unnest(ids) WITH ORDINALITY AS k (id, n) LEFT JOIN wanted w ON w.n = k.n) END,
           (SELECT array_agg(DISTINCT queue) FROM inserted WHERE state = 'queued'),
           (SELECT min(run_at) FROM inserted WHERE state = 'scheduled')
    INTO ids, touched, soonest;

    IF touched IS NOT NULL THEN
        IF limited THEN
            PERFORM rota.wake_admission();
        END IF;
        PERFORM rota.wake(touched);
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    RETURN QUERY SELECT * FROM unnest(ids, twins);
END $$;

-- As before, and limits get their slots back.
CREATE OR REPLACE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
BEGIN
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types, errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error, traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond') AS started_at,
            o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.is_suspect, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds, o.backoff, o.tags,
            o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.slots, o.progress, coalesce(f.message, o.message) AS message,
            f.error_type, f.error, f.traceback, f.end_reason, f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, details, keep_class)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_suspect, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, detail,
            CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = ended.job AND k.state = ended.state),
                (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = ended.state), 'standard') ELSE 'standard' END
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.state END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT id FROM ended;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- As before, and limits get their slots back.
CREATE OR REPLACE FUNCTION rota.finish_span(for_worker bigint, first_id bigint, of_attempt integer, durations_us bigint[], results jsonb[] DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
    moved     bigint;
BEGIN
    WITH ended AS (
        DELETE FROM rota.open_runs o
        WHERE o.id BETWEEN first_id AND first_id + cardinality(durations_us) - 1
          AND o.worker = for_worker AND o.attempt = of_attempt AND durations_us[o.id - first_id + 1] >= 0
          AND o.key IS NULL AND o.schedule_id IS NULL
        RETURNING o.id, o.created_at, o.run_at, o.started_at, durations_us[o.id - first_id + 1] AS us, o.attempts_used, o.max_attempts,
            o.priority, o.is_suspect, o.queue, o.job, o.tenant, o.payload, o.expires_at, o.timeout_seconds, o.backoff, o.tags, o.metadata,
            o.triggered_by, o.schedule, o.scheduled_for, o.progress, o.message, o.slots
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN 'succeeded' END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3
    )
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
        max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
        timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, progress, message, keep_class)
    SELECT id, created_at, run_at, greatest(started_at, clock - us * interval '1 microsecond'), clock, for_worker, of_attempt,
        us / real '1000', attempts_used + 1, max_attempts, priority, is_suspect, 'succeeded', 'succeeded', queue, job, tenant, payload,
        results[id - first_id + 1], expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
        progress, message,
        CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = ended.job AND k.state = 'succeeded'),
            (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = 'succeeded'), 'standard') ELSE 'standard' END
    FROM ended;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ARRAY(SELECT w.run_id FROM rota.waits w
            WHERE w.run_id BETWEEN first_id AND first_id + cardinality(durations_us) - 1), clock);
    END IF;
    RETURN moved;
END $$;

-- As before, and limits get back the slots of what was ready.
CREATE OR REPLACE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL, failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
    week  timestamptz := date_trunc('week', clock AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*, coalesce(o.expires_at <= clock, false) AS is_expired
    ), ended AS (
        SELECT g.*, CASE WHEN is_expired AND least(greatest(expires_at, created_at), clock) >= week
                         THEN least(greatest(expires_at, created_at), clock) ELSE clock END AS ended_at,
               CASE WHEN is_expired THEN 'cancelled' ELSE new_state END AS ended_as
        FROM gone g
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            error_type, error, end_reason, keep_class)
        SELECT id, created_at, run_at, ended_at, attempt, attempts_used,
            max_attempts, priority, is_suspect, ended_as, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            CASE WHEN NOT is_expired THEN failure_type END, coalesce(CASE WHEN NOT is_expired THEN failure END, last_error),
            CASE WHEN is_expired THEN 'expired' ELSE reason END, rota.keep_class_of(job, ended_as)
        FROM ended ORDER BY schedule_id
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(e.ended_at, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds, ended_at FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.ended_as END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT id FROM ended;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- As before. One that is put off gives its slots back, but keeps its turn in a sequence; a rate counts every start.
CREATE OR REPLACE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL,
    details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types, errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), owned AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.queue, o.tenant, o.limit_keys, o.slots FROM input f JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), was AS MATERIALIZED (
        SELECT w.*, g.id AS error_group, g.file, g.line, g.function
        FROM owned w CROSS JOIN LATERAL rota.group_error(w.job, w.error_type, w.error, w.traceback) g
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.delay > 0 THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.delay > 0 THEN rota.after(clock, least(w.delay, 3153600000)) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL,
            is_suspect = w.state = 'lost' OR w.state = 'cancelled' AND o.is_suspect,
            held_by = CASE WHEN w.state = 'lost' OR w.state = 'cancelled' AND w.is_suspect AND rota.is_isolated(o) THEN 'suspect'
                           WHEN w.limit_keys IS NOT NULL AND coalesce(w.delay, 0) <= 0 AND (w.is_spent OR w.delay = 0)
                                AND EXISTS (SELECT FROM unnest(w.limit_keys) k WHERE k LIKE 'r%') THEN 'limit' END,
            slots = CASE WHEN w.slots IS NOT NULL AND w.delay > 0 THEN nullif(ARRAY(SELECT k FROM unnest(w.slots) k WHERE k LIKE 's%'), '{}') ELSE o.slots END,
            limit_key = CASE WHEN w.limit_keys IS NOT NULL THEN (rota.missing_keys(w.limit_keys, CASE WHEN w.delay > 0
                THEN ARRAY(SELECT k FROM unnest(w.slots) k WHERE k LIKE 's%') ELSE w.slots END))[1] END,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            error_group = coalesce(w.error_group, o.error_group), message = coalesce(w.message, o.message), progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at, w.slots, w.delay
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM again a CROSS JOIN LATERAL unnest(a.slots) k WHERE a.slots IS NOT NULL AND a.delay > 0 AND k NOT LIKE 's%' GROUP BY k
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker, greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback, w.detail
        FROM was w JOIN again a ON a.id = w.id
    ), noted AS (
        INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error, file, line, function)
        SELECT w.error_group, w.job, w.queue, w.id, clock, false, left(w.error_type, 200), left(coalesce(w.error, ''), 1000), w.file, w.line, w.function
        FROM was w JOIN again a ON a.id = w.id WHERE w.error_group IS NOT NULL
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, soonest FROM again;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors, array_agg(f.traceback) AS tracebacks,
               array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END) FROM unnest(b.attempt_states) s),
                          b.reasons, b.messages, b.error_types, b.errors, b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;

-- As before; one under a limit waits for its admission.
CREATE OR REPLACE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    limited boolean;
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp(),
            held_by = CASE WHEN o.limit_keys IS NOT NULL AND cardinality(rota.missing_keys(o.limit_keys, o.slots)) > 0 THEN 'limit' END,
            limit_key = (rota.missing_keys(o.limit_keys, o.slots))[1]
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue), bool_or(held_by IS NOT NULL) INTO promoted, touched, limited FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
        PERFORM rota.wake_admission() WHERE limited;
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

-- As before, under the limits that hold now.
CREATE OR REPLACE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    place  record;
    extra  integer;
    holder bigint;
    open_state text;
    at     timestamptz;
    keys   text[];
BEGIN
    PERFORM rota.settle_expired(retry_run.run_id);
    place := rota.find_ended(retry_run.run_id);
    DELETE FROM rota.ended_runs r
    WHERE r.id = retry_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at AND r.state IN ('failed', 'cancelled')
    RETURNING r.* INTO old;
    IF NOT FOUND THEN
        open_state := coalesce((SELECT o.state FROM rota.open_runs o WHERE o.id = retry_run.run_id), place.state);
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', retry_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', retry_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that failed or was cancelled can be retried.';
    END IF;
    SELECT j.max_attempts INTO extra FROM rota.jobs j WHERE j.name = old.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(old.job);
    END IF;
    PERFORM rota.check_options(old.job, coalesce(retry_run.payload, '{}'), s.payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL,
        delay => retry_run.delay) FROM rota.settings s;
    at := clock + coalesce(retry_run.delay, '0');
    IF old.key IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.tenant = old.tenant AND k.job = old.job AND k.key = old.key AND k.run_id = old.id;
        holder := rota.take_key(old.tenant, old.job, old.key, old.id);
        IF holder <> old.id THEN
            RAISE EXCEPTION 'run % cannot be retried: its key "%" is held by run %', old.id, old.key, holder
                USING ERRCODE = 'RO003', DETAIL = holder::text;
        END IF;
    END IF;
    DELETE FROM rota.cancel_requests c WHERE c.run_id = old.id;
    IF EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        keys := rota.limit_keys_of(old.job, old.queue, old.tenant, old.schedule, coalesce(retry_run.payload, old.payload));
    END IF;
    -- The last attempt lived in the row that goes; it becomes a past one. What the last
    -- attempt had spent stays spent, and the allowance rises above it.
    IF old.attempt_state IS NOT NULL THEN
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, details, error_type, error, traceback)
        VALUES (old.id, old.attempt, old.attempt_state, old.worker, old.started_at, old.finished_at, old.duration_ms, old.is_redelivery,
            old.attempt_state <> 'cancelled', old.job, old.tenant, old.message, old.details, old.error_type, old.error, old.traceback);
    END IF;
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority, attempt,
        attempts_used, max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by,
        schedule, scheduled_for, schedule_id, last_error, error_group, limit_keys, limit_key, held_by)
    VALUES (old.id, nextval('rota.run_ids'), old.created_at, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
        old.queue, old.job, old.tenant, coalesce(retry_run.payload, old.payload), old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL, old.timeout_seconds, old.key, old.key_seconds, old.backoff,
        old.tags, old.metadata, old.triggered_by, old.schedule, old.scheduled_for, old.schedule_id, old.error, old.error_group,
        keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END);
    PERFORM rota.write_audit(retry_run.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state, 'payload', old.payload),
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, 'payload', coalesce(retry_run.payload, old.payload)), retry_run.reason, old.tenant);
    IF at > clock THEN
        PERFORM rota.wake_later(at - clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[old.queue]);
    END IF;
    RETURN old.id;
END $$;

-- As before; one under a limit waits for its admission next.
CREATE OR REPLACE FUNCTION rota.free_held_runs(schedules bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    soonest timestamptz;
BEGIN
    WITH waiting AS (
        SELECT w.schedule_id, coalesce(min(s.max_concurrent_runs), 1) AS room, coalesce(bool_or(s.overlap = 'allow'), false) AS is_free
        FROM rota.open_runs w LEFT JOIN rota.schedules s ON s.id = w.schedule_id
        WHERE w.schedule_id = ANY (schedules) AND w.held_by = 'overlap' GROUP BY w.schedule_id
    ), chosen AS (
        SELECT o.id FROM waiting w CROSS JOIN LATERAL (
            SELECT h.id FROM rota.open_runs h WHERE h.schedule_id = w.schedule_id AND h.held_by = 'overlap'
            ORDER BY h.scheduled_for
            LIMIT CASE WHEN w.is_free THEN NULL ELSE greatest(0, w.room - (
                SELECT count(*) FROM rota.open_runs r WHERE r.schedule_id = w.schedule_id AND r.held_by IS DISTINCT FROM 'overlap')) END
            FOR UPDATE SKIP LOCKED) o
    ), freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.limit_keys IS NOT NULL AND o.run_at <= clock THEN 'limit' END, limit_key = o.limit_keys[1],
            seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
            state = CASE WHEN o.run_at > clock THEN 'scheduled' ELSE 'queued' END
        WHERE o.id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING o.queue, o.state, o.run_at
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO touched, soonest FROM freed;
    PERFORM rota.wake(touched), rota.wake_admission() WHERE touched IS NOT NULL;
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
END $$;

-- As before; what is parked gives its slots back.
CREATE OR REPLACE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live' OR rota.is_asleep(w));
    unknown text[] := ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.queued > d.held AND d.job <> ALL (known));
    parked   integer;
    suspects integer;
BEGIN
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'suspect' AND q.job <> ALL (known)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS suspects = ROW_COUNT;
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT rota.try_lock('depths') THEN
        RETURN suspects;
    END IF;
    WITH chosen AS MATERIALIZED (
        SELECT q.id, q.slots FROM rota.open_runs q
        WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), parked AS (
        UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now(), slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c))
        RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO parked FROM parked;
    IF parked < max_runs THEN
        -- No more are left until the next count says so.
        UPDATE rota.depths d SET held = d.queued WHERE d.job = ANY (unknown) AND d.queued > d.held;
    END IF;
    RETURN parked + suspects;
END $$;

-- As before; one under a limit waits for its admission next, but a suspect has kept its slots.
CREATE OR REPLACE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live');
    touched text[];
    freed   integer;
BEGIN
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.is_suspect AND (o.limit_keys IS NULL OR o.slots IS NOT NULL) THEN 'suspect' WHEN o.limit_keys IS NOT NULL THEN 'limit' END,
            limit_key = (rota.missing_keys(o.limit_keys, o.slots))[1], held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                                  WHERE q.held_by = 'no_worker' AND q.job = ANY (known)
                                  LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_admission() WHERE freed > 0;
    RETURN freed;
END $$;

-- As before; a paused tenant keeps no slots, and what waits for a limit waits for its tenant then.
DROP INDEX rota.open_runs_held_of_tenant;
CREATE INDEX open_runs_held_of_tenant ON rota.open_runs (held_by, tenant, seq) WHERE held_by = 'tenant' OR held_by = 'limit' AND tenant <> '';
CREATE OR REPLACE FUNCTION rota.hold_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    moved integer;
BEGIN
    WITH ready AS MATERIALIZED (
        SELECT r.id, r.slots FROM rota.busy_queues() AS q (name)
        CROSS JOIN LATERAL (SELECT r.id, r.slots FROM rota.open_runs r
                            WHERE r.is_ready AND r.worker IS NULL AND r.queue = q.name AND r.tenant = of_tenant
                            ORDER BY r.priority, r.seq LIMIT max_runs FOR UPDATE SKIP LOCKED) r
        LIMIT max_runs
    ), limited AS MATERIALIZED (
        SELECT l.id, l.slots FROM rota.open_runs l WHERE l.held_by = 'limit' AND l.tenant = of_tenant AND l.tenant <> ''
        ORDER BY l.seq LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), apart AS MATERIALIZED (
        SELECT s.id, s.slots FROM rota.open_runs s WHERE s.held_by = 'suspect' AND s.tenant = of_tenant LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), chosen AS MATERIALIZED (
        SELECT * FROM ready UNION ALL SELECT * FROM limited UNION ALL SELECT * FROM apart LIMIT max_runs
    ), held AS (
        UPDATE rota.open_runs o SET held_by = 'tenant', held_at = rota.now(), slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c)) RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO moved FROM held;
    PERFORM rota.wake_admission() WHERE moved > 0 AND EXISTS (SELECT FROM rota.settings s WHERE s.has_limits);
    RETURN moved;
END $$;

CREATE OR REPLACE FUNCTION rota.free_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    touched text[];
    freed   integer;
BEGIN
    -- They keep their place in the line.
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.limit_keys IS NOT NULL THEN 'limit' WHEN o.is_suspect THEN 'suspect' END, limit_key = o.limit_keys[1],
            held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'tenant' AND q.tenant = of_tenant
                                  ORDER BY q.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_admission() WHERE freed > 0 AND EXISTS (SELECT FROM rota.settings s WHERE s.has_limits);
    RETURN freed;
END $$;

-- As before; runs under limits wait for their admission.
CREATE OR REPLACE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick decides
    -- again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
        CROSS JOIN LATERAL (SELECT FROM rota.schedules f WHERE f.id = t.id FOR NO KEY UPDATE SKIP LOCKED) free
    ), moved AS (
        -- No column that people edit, as the triggers of edits go by the columns that are named.
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = coalesce(t.segments, '[]'),
            finished_at = CASE WHEN t.is_finished THEN clock END,
            version = s.version + 1, error = NULL, parked_times = 0,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]' OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.version = t.version AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.run_tags,
            s.run_metadata, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, m.tenant, m.name, m.job, m.payload, m.queue, coalesce(m.priority, j.priority) AS priority, m.max_attempts,
            m.timeout_seconds, m.run_tags, m.run_metadata, m.last_success_for, o.*
        FROM moved m LEFT JOIN rota.jobs j ON j.name = m.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(m.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule, is_moved, details,
            claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason, w.tenant, w.name, coalesce(w.is_moved, false), w.details,
            clock, clock_timestamp() + (SELECT clock_offset FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant, payload, priority,
            max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, limit_keys, limit_key)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), w.start_at,
            CASE WHEN w.start_at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' WHEN k.keys IS NOT NULL AND w.start_at <= clock THEN 'limit' END,
            coalesce(w.queue, j.queue), w.job, w.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, w.run_tags, w.run_metadata,
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END, 'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id, k.keys, k.keys[1]
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        CROSS JOIN LATERAL (SELECT CASE WHEN limited THEN rota.limit_keys_of(w.job, coalesce(w.queue, j.queue), w.tenant, w.name,
            coalesce(w.payload, j.default_payload, '{}')) END AS keys) k
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    IF resumed IS NOT NULL THEN
        PERFORM rota.act_as('rota');
        UPDATE rota.schedules s
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0, version = s.version + 1
        WHERE s.id = ANY (resumed);
    END IF;
    IF arrived IS NOT NULL THEN
        UPDATE rota.schedules s SET moved_to = NULL, version = s.version + 1 WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may have
        -- made room.
        PERFORM rota.free_held_runs(written);
    END IF;
    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF limited THEN
        PERFORM rota.wake_admission();
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    IF ticks @> '[{"is_finished": true}]' THEN
        DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL AND s.delete_when_finished;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;

-- As before; runs under limits wait for their admission.
CREATE OR REPLACE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload, m.marker
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL) AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true) AND coalesce(s.run_count < s.max_runs, true)
    ), free AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s WHERE s.id IN (SELECT d.id FROM due d) FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued', enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock, version = s.version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at, decided_at, decided_by,
            enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock, for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority, max_attempts,
            timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, limit_keys, limit_key, held_by)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), clock, 'queued', coalesce(d.queue, d.job_queue), d.job, d.tenant,
            coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority), coalesce(d.max_attempts, d.job_attempts),
            d.timeout_seconds, d.run_tags, d.run_metadata,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for), d.name, clock, d.id,
            k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL THEN 'limit' END
        FROM taken t JOIN due d ON d.id = t.schedule_id
        CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT s.has_limits FROM rota.settings s) THEN rota.limit_keys_of(d.job, coalesce(d.queue, d.job_queue), d.tenant, d.name,
            coalesce(d.payload, d.default_payload, '{}')) END AS keys) k
        ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e
    UNION ALL
    SELECT d.name, NULL FROM due d WHERE d.id NOT IN (SELECT f.id FROM free f)
       AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = d.id AND i.marker = d.marker AND i.state NOT IN ('failed', 'cancelled'));
    PERFORM rota.wake_admission();
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id WHERE i.enqueued_at = clock));
END $$;

-- As before, under the limits of its schedule too.
CREATE OR REPLACE FUNCTION rota.trigger_schedule(
    name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL, metadata jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := coalesce(trigger_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint;
BEGIN
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job,
        payload => coalesce(trigger_schedule.payload, found.payload, (SELECT j.default_payload FROM rota.jobs j WHERE j.name = found.job), '{}'),
        queue => found.queue, priority => found.priority::integer, tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
        metadata => coalesce(trigger_schedule.metadata || found.run_metadata, trigger_schedule.metadata, found.run_metadata),
        triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule', found.name)) r;
    UPDATE rota.open_runs o SET schedule = found.name, schedule_id = found.id WHERE o.id = made;
    PERFORM rota.limit_run(made);
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL, jsonb_build_object('run_id', made), NULL, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule', found.name);
END $$;

-- As before, under the limits of the schedule too.
CREATE OR REPLACE FUNCTION rota.backfill_schedule(
    name text, times timestamptz[], since timestamptz[], starts timestamptz[], from_at timestamptz, until_at timestamptz,
    priority integer DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL,
    backfill bigint DEFAULT NULL, total integer DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(backfill_schedule.name, backfill_schedule.tenant);
    who   text := coalesce(backfill_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint := backfill_schedule.backfill;
    runs  bigint[];
BEGIN
    IF made IS NULL THEN
        INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by, reason)
        VALUES (found.id, backfill_schedule.from_at, backfill_schedule.until_at, who, backfill_schedule.reason) RETURNING id INTO made;
        PERFORM rota.write_audit(who, 'schedule.backfilled', 'schedule', found.name, NULL,
            jsonb_build_object('backfill', made, 'from', backfill_schedule.from_at, 'until', backfill_schedule.until_at,
                               'runs', coalesce(total, cardinality(times), 0)), backfill_schedule.reason, found.tenant);
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT t.nominal_at, t.since, t.start_at, r.run_id
        FROM unnest(times, backfill_schedule.since, starts) WITH ORDINALITY AS t (nominal_at, since, start_at, n)
        CROSS JOIN LATERAL rota.enqueue_run(
            job => found.job,
            payload => coalesce(found.payload, (SELECT j.default_payload FROM rota.jobs j WHERE j.name = found.job), '{}'),
            queue => found.queue, priority => coalesce(backfill_schedule.priority, found.priority::integer), run_at => t.start_at,
            tenant => found.tenant, max_attempts => found.max_attempts::integer,
            timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags, metadata => found.run_metadata,
            triggered_by => jsonb_build_object('type', 'backfill', 'actor', who, 'schedule', found.name, 'backfill', made, 'since', t.since)) r
        ORDER BY t.n
    ), noted AS (
        INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)
        SELECT made, found.id, w.nominal_at, w.run_id FROM wanted w
    )
    SELECT array_agg(w.run_id ORDER BY w.nominal_at) INTO runs FROM wanted w;
    UPDATE rota.open_runs o SET schedule = found.name, scheduled_for = b.nominal_at
    FROM rota.backfill_times b WHERE b.backfill_id = made AND b.run_id = ANY (runs) AND o.id = b.run_id;
    PERFORM rota.limit_run(r) FROM unnest(runs) r;
    RETURN jsonb_build_object('backfill_id', made, 'run_ids', to_jsonb(coalesce(runs, '{}')));
END $$;
