-- Values that every reader can hold. Postgres knows instants that no calendar of a client has (infinity, years before 1 and
-- after 9999), numbers that are none (NaN) or too large for JSON's readers, and nesting without end. One such value in a row
-- made whole lists unreadable, or kept a worker from ending any run: they are refused at every edge, here too.

-- A day off at both ends, so that it is in the years 1 to 9999 in every time zone.
CREATE FUNCTION rota.is_instant(at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT at >= '0001-01-02 00:00Z'::timestamptz AND at < '9999-12-31 00:00Z'::timestamptz
$$;

-- At most 100 levels deep, and no number beyond a double. What cannot be, by its length, its brackets or its digits, is not
-- walked through.
CREATE FUNCTION rota.is_plain_json(doc jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(doc::text) <= 200 THEN true
        ELSE NOT (length(doc::text) - length(translate(doc::text, '[{', '')) > 100 AND jsonb_path_exists(doc, '$.**{101}'))
            AND NOT (doc::text ~ '[0-9]{155}[0-9]{154}' AND jsonb_path_exists(doc,
            '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')) END
$$;

-- One list of texts, none of them missing.
CREATE FUNCTION rota.is_plain_list(list text[]) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN array_ndims(list) > 1 THEN false ELSE array_position(list, NULL) IS NULL END
$$;

-- So many seconds later, whatever they are: what adds up to no instant is cut to a hundred years. A sum that fails would
-- keep a run from ending, and all that end in one statement with it.
CREATE OR REPLACE FUNCTION rota.after(at timestamptz, seconds double precision) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds IS NULL THEN NULL
                WHEN seconds = 'infinity' THEN 'infinity'
                WHEN seconds = 'NaN' THEN at
                ELSE at + make_interval(secs => greatest(-3153600000, least(seconds, 3153600000))) END
$$;

-- What is wrong with a backoff; NULL: nothing.
CREATE FUNCTION rota.backoff_fault(backoff jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    part record;
BEGIN
    IF jsonb_typeof(backoff) <> 'object' THEN
        RETURN 'backoff is not a JSON object';
    ELSIF coalesce(backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        RETURN format('backoff kind "%s" is none of exponential, linear, fixed', backoff ->> 'kind');
    END IF;
    FOR part IN SELECT * FROM jsonb_each(backoff - 'kind') LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds') OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            RETURN format('backoff says "%s": %s', part.key, left(part.value::text, 40));
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- is_checked: Python has looked at the payload when it validated it.
DROP FUNCTION rota.check_options(text, jsonb, integer, integer, integer, real, text, jsonb, jsonb);
CREATE FUNCTION rota.check_options(
    job text, payload jsonb, payload_bytes integer, priority integer, max_attempts integer,
    timeout_seconds double precision, queue text, metadata jsonb, backoff jsonb,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, tags text[] DEFAULT NULL, tenant text DEFAULT NULL,
    is_checked boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fault text;
    hint  text := '';
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        fault := format('the payload of job "%s" must be a JSON object of its arguments, not %s', job, coalesce(jsonb_typeof(payload), 'NULL'));
        hint := 'Write for example {"user_id": 7}.';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        fault := format('the payload of job "%s" has %s bytes; the limit is %s', job, pg_column_size(payload), payload_bytes);
        hint := 'Store the data elsewhere and enqueue its address, or raise runs.payload_bytes.';
    ELSIF NOT (is_checked OR rota.is_plain_json(payload)) OR NOT rota.is_plain_json(metadata) OR NOT rota.is_plain_json(backoff) THEN
        fault := format('the %s of job "%s" is nested deeper than 100 levels, or holds a number that JSON''s readers cannot hold',
            CASE WHEN NOT (is_checked OR rota.is_plain_json(payload)) THEN 'payload' WHEN NOT rota.is_plain_json(metadata) THEN 'metadata' ELSE 'backoff' END, job);
        hint := 'Numbers go up to 1.7976931348623157e308; write larger ones as text.';
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        fault := format('priority %s of job "%s" is not between 0 (first) and 9 (last)', priority, job);
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        fault := format('max_attempts %s of job "%s" is not between 1 and 100', max_attempts, job);
    ELSIF timeout_seconds <= 0 THEN
        fault := format('timeout_seconds %s of job "%s" is not above 0', timeout_seconds, job);
    ELSIF timeout_seconds > 31536000 THEN
        fault := format('timeout_seconds %s of job "%s" is more than 31536000 (a year)', timeout_seconds, job);
    ELSIF queue = '' OR length(queue) > 100 THEN
        fault := format('the queue of job "%s" needs a name of 1 to 100 characters', job);
    ELSIF jsonb_typeof(metadata) <> 'object' OR jsonb_typeof(backoff) <> 'object' THEN
        fault := format('metadata and backoff of job "%s" must be JSON objects', job);
    ELSIF backoff IS NOT NULL AND rota.backoff_fault(backoff) IS NOT NULL THEN
        fault := format('%s of job "%s" cannot be', rota.backoff_fault(backoff), job);
        hint := 'It has kind, base_seconds, factor (from 1), cap_seconds, jitter_seconds (from 0).';
    ELSIF NOT rota.is_instant(run_at) THEN
        fault := format('run_at %s of job "%s" is not in the years 1 to 9999', run_at, job);
    ELSIF NOT rota.is_instant(expires_at) THEN
        fault := format('expires_at %s of job "%s" is not in the years 1 to 9999', expires_at, job);
        hint := 'Leave it out for a run that never expires.';
    ELSIF delay NOT BETWEEN interval '-100 years' AND interval '100 years' THEN
        fault := format('delay %s of job "%s" is more than 100 years', delay, job);
    ELSIF key_seconds < 0 OR key_seconds > 3153600000 AND key_seconds <> 'infinity' THEN
        fault := format('key_seconds %s of job "%s" is not between 0 and 3153600000 (100 years)', key_seconds, job);
        hint := 'infinity keeps the key for ever.';
    ELSIF tags IS NOT NULL AND (NOT rota.is_plain_list(tags) OR EXISTS (SELECT FROM unnest(tags) t WHERE length(t) NOT BETWEEN 1 AND 100)) THEN
        fault := format('tags of job "%s" must be one list of texts of 1 to 100 characters', job);
    ELSIF length(tenant) > 200 THEN
        fault := format('the tenant of job "%s" has more than 200 characters', job);
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = 'RO002', HINT = hint;
END $$;

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
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer DEFAULT NULL,
    OUT run_id bigint,
    OUT is_duplicate boolean
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
        enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.queue, enqueue_run.metadata, enqueue_run.backoff,
        enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at, enqueue_run.key_seconds, enqueue_run.tags, enqueue_run.tenant,
        enqueue_run.validated_by IS NOT NULL);
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
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer[] DEFAULT NULL
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
            max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by)
        SELECT id, id, clock, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''), payload, coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), expires_at, timeout, backoff,
            tag_list, metadata,
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
    triggered_by jsonb DEFAULT '{"type": "sql"}',
    validated_by integer DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
        enqueue_batch.timeout_seconds, enqueue_batch.queue, enqueue_batch.metadata, enqueue_batch.backoff, enqueue_batch.run_at,
        enqueue_batch.delay, enqueue_batch.expires_at, NULL, enqueue_batch.tags, enqueue_batch.tenant);
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
                   CASE WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes
                             AND (enqueue_batch.validated_by IS NOT NULL OR rota.is_plain_json(p.value)) THEN p.value
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

-- As before (0005); a delay that adds up to no instant is cut.
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
    ), was AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.tenant FROM input f JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.delay > 0 THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.delay > 0 THEN rota.after(clock, least(w.delay, 3153600000)) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL, is_suspect = false,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            message = coalesce(w.message, o.message), progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker, greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback, w.detail
        FROM was w JOIN again a ON a.id = w.id
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
BEGIN
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
        schedule, scheduled_for, schedule_id, last_error)
    VALUES (old.id, nextval('rota.run_ids'), old.created_at, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
        old.queue, old.job, old.tenant, coalesce(retry_run.payload, old.payload), old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL, old.timeout_seconds, old.key, old.key_seconds, old.backoff,
        old.tags, old.metadata, old.triggered_by, old.schedule, old.scheduled_for, old.schedule_id, old.error);
    PERFORM rota.write_audit(retry_run.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state, 'payload', old.payload),
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, 'payload', coalesce(retry_run.payload, old.payload)), retry_run.reason, old.tenant);
    IF at > clock THEN
        PERFORM rota.wake_later(at - clock);
    ELSE
        PERFORM rota.wake(ARRAY[old.queue]);
    END IF;
    RETURN old.id;
END $$;
