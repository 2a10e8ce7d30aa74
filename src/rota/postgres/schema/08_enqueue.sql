-- How a run comes into being, always in the caller's transaction: `enqueue` for people, `enqueue_plain`,
-- `enqueue_run`, `enqueue_batch` and `enqueue_many` for programs. Then how whoever waits hears of it: `wake` calls
-- workers, who answer by `answer_calls` and `pass_on`; `waits` and `tell_waiting` are for those who wait for the end
-- of a run.

-- Duplicates by a sequence: it counts those too that end in an error and are rolled back.
CREATE SEQUENCE rota.duplicates;

-- What triggered_by says of an enqueue by plain SQL: in the session that a worker lends to a SQL job or to
-- ctx.transaction(), its run. Who acts (SET rota.actor) is added by told_by.
-- Called by: emit.
CREATE FUNCTION rota.sql_trigger() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('application_name') LIKE 'rota run %'
        AND split_part(current_setting('application_name'), ' ', 3) ~ '^[0-9]{1,18}$'
                THEN jsonb_build_object('type', 'sql', 'run',
                    split_part(current_setting('application_name'), ' ', 3)::bigint)
                ELSE jsonb '{"type": "sql"}' END
$$;

-- triggered_by with the person for whom the session acts (SET rota.actor), where nobody else is named.
-- Called by: enqueue_batch, enqueue_many, enqueue_plain, enqueue_run.
CREATE FUNCTION rota.told_by(triggered_by jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN coalesce(current_setting('rota' || '.actor', true), '') = '' THEN triggered_by
                ELSE jsonb_build_object('actor', current_setting('rota' || '.actor', true))
                    || coalesce(triggered_by, '{"type": "code"}') END
$$;

-- The key of a run, by the template of its job. What the payload leaves out is what the handler's signature says;
-- a value that neither has is refused: runs of different things would share one key.
-- Called by: enqueue_many, enqueue_run.
CREATE FUNCTION rota.run_key(job text, template text, payload jsonb, payload_schema jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fixed  text[] := regexp_split_to_array(template, '\{[^}]+\}');
    filled text := fixed[1];
    field  text;
    place  bigint;
    path   text[];
    value  text;
BEGIN
    FOR field, place IN SELECT f.match[1], f.place
        FROM regexp_matches(template, '\{([^}]+)\}', 'g') WITH ORDINALITY AS f(match, place) ORDER BY f.place LOOP
        path := string_to_array(field, '.');
        value := coalesce(payload #>> path, CASE WHEN NOT payload ? path[1]
            THEN payload_schema #>> (ARRAY['properties', path[1], 'default'] || path[2:]) END);
        IF value IS NULL THEN
            RAISE EXCEPTION 'the key "%" of job "%" requires %, which the payload does not have', template, job, field
                USING ERRCODE = 'RO002', HINT = 'Add it to the payload, or pass a key for this run.';
        END IF;
        filled := filled || value || fixed[place + 1];
    END LOOP;
    RETURN filled;
END $$;

-- enqueue_run for people and triggers: the same options, and the id alone as the answer.
-- Called by: users.
CREATE FUNCTION rota.enqueue(
    job text,
    payload jsonb DEFAULT 'null',
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
    expires_in interval DEFAULT NULL
) RETURNS bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT r.run_id FROM rota.enqueue_run(
        enqueue.job, enqueue.payload, enqueue.queue, enqueue.priority, enqueue.run_at, enqueue.delay,
        enqueue.expires_at, enqueue.key, enqueue.key_seconds, enqueue.on_conflict, enqueue.tenant,
        enqueue.max_attempts, enqueue.timeout_seconds, enqueue.backoff, enqueue.tags, enqueue.metadata,
        expires_in => enqueue.expires_in) r
$$;
COMMENT ON FUNCTION rota.enqueue IS 'Enqueues one run in the caller''s transaction and returns its id.';

-- The one way in. What is not given is the job's: queue, priority and the like, its delay, expiry, key, tenant, tags
-- and, for a payload that is JSON's null, its default payload; metadata is added to the job's. on_conflict says what a
-- taken key does: return (the first run), raise, replace (payload and options of the waiting run; a running one is
-- never touched), debounce or throttle. A run under a limit waits for its admission. Takes the caller's transaction:
-- rolled back, the run never was.
-- Called by: many.
-- Locks: rows that nobody else has locked, rows.
CREATE FUNCTION rota.enqueue_run(
    job text,
    payload jsonb DEFAULT 'null',
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
    expires_in interval DEFAULT NULL,
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
    capped boolean := false;
BEGIN
    LOOP
        SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock,
            s.has_limits, s.capped_queues, j.delay_seconds, j.expires_in_seconds, j.key, j.tenant, j.payload_schema,
            num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) > 0 AS has_defaults,
            coalesce(enqueue_run.tags, nullif(j.tags, '{}')) AS tags,
            CASE jsonb_typeof(enqueue_run.metadata) WHEN 'object' THEN j.metadata || enqueue_run.metadata
                ELSE nullif(j.metadata, '{}') END AS metadata,
            CASE jsonb_typeof(enqueue_run.payload) WHEN 'null' THEN coalesce(j.default_payload, '{}')
                ELSE enqueue_run.payload END AS payload,
            CASE WHEN jsonb_typeof(enqueue_run.payload) <> 'null' THEN enqueue_run.validated_by END AS validated_by,
            rota.told_by(enqueue_run.triggered_by) AS triggered_by INTO def
        FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_run.job;
        EXIT WHEN FOUND;
        enqueue_run.job := rota.name_now(enqueue_run.job);  -- it was renamed
    END LOOP;
    IF def.has_defaults THEN
        IF enqueue_run.run_at IS NULL THEN
            enqueue_run.delay := coalesce(enqueue_run.delay, make_interval(secs => def.delay_seconds));
        END IF;
        IF enqueue_run.expires_at IS NULL THEN
            enqueue_run.expires_in := coalesce(enqueue_run.expires_in, make_interval(secs => def.expires_in_seconds));
        END IF;
        enqueue_run.tenant := coalesce(nullif(enqueue_run.tenant, ''), def.tenant, '');
        IF enqueue_run.key IS NULL AND jsonb_typeof(def.payload) = 'object' THEN
            enqueue_run.key := rota.run_key(enqueue_run.job, def.key, def.payload, def.payload_schema);
        END IF;
    END IF;
    -- Most enqueues have no options, and a small payload or one that was looked at. Each expression costs about a
    -- microsecond in each transaction, so that they are asked for in one.
    IF num_nonnulls(enqueue_run.queue, enqueue_run.priority, enqueue_run.run_at, enqueue_run.delay,
            enqueue_run.expires_at, enqueue_run.key_seconds, enqueue_run.max_attempts, enqueue_run.timeout_seconds,
            enqueue_run.backoff, enqueue_run.tags, enqueue_run.metadata, enqueue_run.expires_in) > 0
       OR (enqueue_run.on_conflict = 'return' AND enqueue_run.tenant = ''
           AND jsonb_typeof(def.payload) = 'object'
           AND pg_column_size(def.payload) <= def.payload_bytes
           AND (def.validated_by IS NOT NULL OR octet_length(def.payload::text) <= 200)) IS NOT TRUE
    THEN
        PERFORM rota.check_options(enqueue_run.job, def.payload, def.payload_bytes, enqueue_run.priority,
            enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.queue, enqueue_run.metadata,
            enqueue_run.backoff, enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at, enqueue_run.key_seconds,
            enqueue_run.tags, enqueue_run.tenant, def.validated_by IS NOT NULL, enqueue_run.expires_in);
        IF enqueue_run.run_at IS NOT NULL AND enqueue_run.delay IS NOT NULL THEN
            RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace', 'debounce', 'throttle') THEN
            RAISE EXCEPTION 'on_conflict must be one of return, raise, replace, debounce, throttle, not "%"',
                enqueue_run.on_conflict USING ERRCODE = 'RO002';
        ELSIF enqueue_run.key IS NULL AND enqueue_run.on_conflict IN ('raise', 'replace')
            OR enqueue_run.key IS NULL AND enqueue_run.key_seconds IS NOT NULL THEN
            RAISE EXCEPTION '% needs a key, and the run of job "%" has none',
                CASE WHEN enqueue_run.key_seconds IS NULL THEN 'on_conflict' ELSE 'key_seconds' END, enqueue_run.job
                USING ERRCODE = 'RO002', HINT = 'Pass a key, or declare one for the job.';
        ELSIF enqueue_run.on_conflict = 'debounce' AND (enqueue_run.key IS NULL OR enqueue_run.delay IS NULL) THEN
            RAISE EXCEPTION 'debounce needs a key and a delay (the quiet period)' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict = 'throttle' AND (enqueue_run.key IS NULL OR enqueue_run.key_seconds IS NULL) THEN
            RAISE EXCEPTION 'throttle needs a key and key_seconds (the period)' USING ERRCODE = 'RO002';
        END IF;
        is_burst := enqueue_run.on_conflict IN ('debounce', 'throttle');
    END IF;
    at := coalesce(enqueue_run.run_at, def.clock + enqueue_run.delay, def.clock);
    enqueue_run.queue := coalesce(enqueue_run.queue, def.queue);
    IF def.has_limits THEN
        keys := rota.limit_keys_of(enqueue_run.job, enqueue_run.queue, enqueue_run.tenant, NULL, def.payload);
    END IF;
    run_id := nextval('rota.run_ids');
    is_duplicate := false;

    IF enqueue_run.key IS NOT NULL THEN
        holder := rota.take_key(enqueue_run.tenant, enqueue_run.job, enqueue_run.key, run_id);
        IF enqueue_run.on_conflict = 'debounce' THEN
            -- Whoever else is of the burst waits here. Nobody waits longer than the longest wait after the first.
            SELECT k.run_id INTO holder FROM rota.keys k
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key FOR UPDATE;
            latest := rota.after(coalesce((SELECT o.created_at FROM rota.open_runs o
                WHERE o.id = holder AND o.state = 'scheduled'), def.clock),
                                 coalesce(enqueue_run.key_seconds, 3153600000));
            at := least(at, latest);
        END IF;
        IF holder <> run_id THEN
            IF enqueue_run.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'key "%" of job "%" is held by run %', enqueue_run.key, enqueue_run.job, holder
                    USING ERRCODE = 'RO003', DETAIL = jsonb_build_object('job', enqueue_run.job, 'key', enqueue_run.key,
                        'held_by', holder);
            ELSIF enqueue_run.on_conflict IN ('replace', 'debounce') THEN
                -- SKIP LOCKED: a row that a worker is taking right now counts as running.
                UPDATE rota.open_runs o
                SET payload = def.payload, validated_by = def.validated_by, refused_by = NULL,
                    queue = enqueue_run.queue,
                    priority = coalesce(enqueue_run.priority, def.priority), run_at = at,
                    state = CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
                    held_by = rota.hold_of(at <= def.clock, keys),
                    is_capped = (enqueue_run.queue = ANY (def.capped_queues)), limit_keys = keys, limit_key = keys[1],
                    slots = NULL,
                    seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
                    expires_at = coalesce(enqueue_run.expires_at, at + enqueue_run.expires_in),
                    max_attempts = greatest(coalesce(enqueue_run.max_attempts, def.max_attempts), o.attempts_used + 1),
                    timeout_seconds = enqueue_run.timeout_seconds, backoff = enqueue_run.backoff,
                    tags = def.tags, metadata = def.metadata, key_seconds = CASE WHEN NOT is_burst
                        THEN enqueue_run.key_seconds END
                FROM (SELECT w.id, w.slots FROM rota.open_runs w
                      WHERE w.id = holder AND (w.state = 'scheduled' AND (w.attempt = 0 OR NOT is_burst)
                          OR w.state = 'queued' AND NOT is_burst) AND w.suspicion = 0
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
            at := least(def.clock + enqueue_run.delay,
                rota.after(def.clock, coalesce(enqueue_run.key_seconds, 3153600000)));
        END IF;
        IF is_burst THEN
            -- The key is the burst's, and not the run's: it holds for its time, whenever the run ends.
            UPDATE rota.keys k SET run_id = enqueue_run.run_id,
                expires_at = CASE WHEN enqueue_run.on_conflict = 'throttle'
                    THEN rota.after(def.clock, enqueue_run.key_seconds) ELSE at + interval '1 day' END
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key;
            enqueue_run.key := NULL;
            enqueue_run.key_seconds := NULL;
        END IF;
    END IF;

    IF enqueue_run.queue = ANY (def.capped_queues) THEN
        capped := rota.check_cap(enqueue_run.queue);
    END IF;
    IF enqueue_run.tenant <> '' THEN
        PERFORM rota.check_quota(enqueue_run.tenant, 1, octet_length(def.payload::text));
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
        max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by,
        validated_by, limit_keys, limit_key, held_by, is_capped)
    VALUES (run_id, run_id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled'
        ELSE 'queued' END, enqueue_run.queue, enqueue_run.job, enqueue_run.tenant,
        CASE WHEN pg_column_size(def.payload) > 4000 THEN rota.put_large_payload(run_id, def.payload)
            ELSE def.payload END,
        coalesce(enqueue_run.priority, def.priority), coalesce(enqueue_run.max_attempts, def.max_attempts),
        coalesce(enqueue_run.expires_at, at + enqueue_run.expires_in), enqueue_run.timeout_seconds, enqueue_run.key,
        enqueue_run.key_seconds, enqueue_run.backoff, def.tags, def.metadata, def.triggered_by, def.validated_by, keys,
        keys[1], rota.hold_of(at <= def.clock, keys), capped);

    IF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[enqueue_run.queue]);
    END IF;
END $$;

-- Gets or creates the holder of a key, never locking one that exists: the batch that ends its run would wait for the
-- caller's whole transaction. A new snapshot for every statement makes the loop see a holder that ended in between.
-- A run that is over holds its key no longer than one that ended.
-- Called by: enqueue_run, retry_run.
CREATE FUNCTION rota.take_key(for_tenant text, for_job text, wanted text, taker bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    holder   record;
    is_ended boolean;
BEGIN
    IF wanted = '' OR length(wanted) > 400 THEN
        RAISE EXCEPTION 'the key of job "%" must have 1 to 400 characters', for_job USING ERRCODE = 'RO002';
    END IF;
    LOOP
        INSERT INTO rota.keys (tenant, job, key, run_id) VALUES (for_tenant, for_job, wanted, taker)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN taker;
        END IF;
        SELECT k.run_id, coalesce(k.expires_at, (SELECT r.expires_at FROM rota.key_releases r
            WHERE r.run_id = k.run_id)) AS expires_at INTO holder FROM rota.keys k
        WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted;
        is_ended := CASE WHEN holder.run_id IS NOT NULL AND holder.expires_at IS NULL
            THEN rota.settle_expired(holder.run_id) END;
        CONTINUE WHEN is_ended;
        IF NOT is_ended THEN
            -- Somebody holds it. From its deadline on it has its key as if it had ended.
            SELECT rota.after(o.expires_at, coalesce(o.key_seconds, 0)) INTO holder.expires_at
            FROM rota.open_runs o WHERE o.id = holder.run_id;
            CONTINUE WHEN NOT FOUND;  -- it has been ended since
        END IF;
        IF holder.expires_at <= rota.now() THEN
            DELETE FROM rota.keys k
            WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted AND k.run_id = holder.run_id;
        ELSIF holder.run_id IS NOT NULL THEN
            PERFORM nextval('rota.duplicates');
            RETURN holder.run_id;
        END IF;
    END LOOP;
END $$;

-- One enqueue without options, or with a queue or a priority only: what enqueue_run does for it, in fewer
-- expressions, because PL/pgSQL prepares each of them anew in each transaction. Anything unusual, limits and defaults
-- of the job among it, is left to enqueue_run. The id is not the last of the session where a run has the key already.
-- Called by: sql/runs/enqueue_plain.sql.
CREATE FUNCTION rota.enqueue_plain(
    job text, payload jsonb, queue text DEFAULT NULL, priority integer DEFAULT NULL, triggered_by jsonb DEFAULT NULL,
    validated_by integer DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made record;
BEGIN
    SELECT nextval('rota.run_ids') AS id, statement_timestamp() + s.clock_offset AS clock,
        coalesce(enqueue_plain.queue, j.queue) AS queue, coalesce(enqueue_plain.priority, j.priority) AS priority,
        j.max_attempts, nullif(j.tags, '{}') AS tags, nullif(j.metadata, '{}') AS metadata,
        rota.told_by(enqueue_plain.triggered_by) AS triggered_by INTO made
    FROM rota.jobs j, rota.settings s
    WHERE j.name = enqueue_plain.job AND jsonb_typeof(enqueue_plain.payload) = 'object'
      AND num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) = 0
      AND pg_column_size(enqueue_plain.payload) <= least(s.payload_bytes, 4000)
      AND (enqueue_plain.validated_by IS NOT NULL OR octet_length(enqueue_plain.payload::text) <= 200)
      AND coalesce(enqueue_plain.queue, j.queue) <> ALL (s.capped_queues)
      AND NOT (s.has_limits AND EXISTS (SELECT FROM rota.limits l
          WHERE l.jobs IS NULL OR enqueue_plain.job = ANY (l.jobs)))
      AND (enqueue_plain.priority BETWEEN 0 AND 9) IS NOT FALSE
      AND (length(enqueue_plain.queue) BETWEEN 1 AND 100) IS NOT FALSE;
    IF NOT FOUND THEN
        RETURN (SELECT r.run_id FROM rota.enqueue_run(enqueue_plain.job, enqueue_plain.payload, enqueue_plain.queue,
            enqueue_plain.priority, triggered_by => enqueue_plain.triggered_by,
            validated_by => enqueue_plain.validated_by) r);
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, payload, priority,
        max_attempts, tags, metadata, triggered_by, validated_by)
    VALUES (made.id, made.id, made.clock, clock_timestamp(), made.clock, 'queued', made.queue, enqueue_plain.job,
        enqueue_plain.payload, made.priority, made.max_attempts, made.tags, made.metadata, made.triggered_by,
        enqueue_plain.validated_by);
    -- Where nobody waits there is nobody to choose from.
    IF EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting)
        OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM rota.wake(ARRAY[made.queue]);
    END IF;
    RETURN made.id;
END $$;

-- Many runs of one job with one set of options: what bulk callers nearly always want. One look at the job and one
-- check of the options serve all of them, so that a row costs little more than its insert. Runs under limits wait
-- for their admission. Keys are enqueue_many's: each of them is a get-or-create of its own.
-- Called by: enqueue_uniform, users.
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
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer DEFAULT NULL,
    expires_in interval DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    def   record;
    at    timestamptz;
    ids   bigint[];
    lane  text;
    capped boolean := false;
BEGIN
    LOOP
        SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, s.capped_queues, j.key, j.default_payload,
            make_interval(secs => j.delay_seconds) AS delay, make_interval(secs => j.expires_in_seconds) AS expires_in,
            coalesce(nullif(enqueue_batch.tenant, ''), j.tenant, '') AS tenant,
            coalesce(enqueue_batch.tags, nullif(j.tags, '{}')) AS tags,
            CASE jsonb_typeof(enqueue_batch.metadata) WHEN 'object' THEN j.metadata || enqueue_batch.metadata
                ELSE nullif(j.metadata, '{}') END AS metadata,
            rota.told_by(enqueue_batch.triggered_by) AS triggered_by, statement_timestamp() + s.clock_offset AS clock,
            s.has_limits AND EXISTS (SELECT FROM rota.limits l
                WHERE l.jobs IS NULL OR enqueue_batch.job = ANY (l.jobs)) AS has_limits INTO def
        FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_batch.job;
        EXIT WHEN FOUND;
        enqueue_batch.job := rota.name_now(enqueue_batch.job);  -- it was renamed
    END LOOP;
    IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payloads of job "%" must be a JSON array of objects', job USING ERRCODE = 'RO002';
    ELSIF enqueue_batch.run_at IS NOT NULL AND enqueue_batch.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
    ELSIF def.key IS NOT NULL THEN
        RETURN (SELECT array_agg(r.run_id ORDER BY r.n) FROM rota.enqueue_uniform(enqueue_batch.job, payloads,
            enqueue_batch.queue, enqueue_batch.priority, enqueue_batch.run_at, enqueue_batch.delay,
            enqueue_batch.expires_at, enqueue_batch.tenant, enqueue_batch.max_attempts, enqueue_batch.timeout_seconds,
            enqueue_batch.backoff, enqueue_batch.tags, enqueue_batch.metadata, enqueue_batch.triggered_by,
            enqueue_batch.validated_by, enqueue_batch.expires_in) WITH ORDINALITY AS r (run_id, is_duplicate, n));
    END IF;
    PERFORM rota.check_options(enqueue_batch.job, '{}', def.payload_bytes, enqueue_batch.priority,
        enqueue_batch.max_attempts, enqueue_batch.timeout_seconds, enqueue_batch.queue, enqueue_batch.metadata,
        enqueue_batch.backoff, enqueue_batch.run_at, enqueue_batch.delay, enqueue_batch.expires_at, NULL,
        enqueue_batch.tags, enqueue_batch.tenant, expires_in => enqueue_batch.expires_in);
    at := coalesce(enqueue_batch.run_at, def.clock + coalesce(enqueue_batch.delay, def.delay), def.clock);
    enqueue_batch.expires_at := coalesce(enqueue_batch.expires_at, at + coalesce(enqueue_batch.expires_in,
        def.expires_in));
    lane := coalesce(enqueue_batch.queue, def.queue);
    IF lane = ANY (def.capped_queues) THEN
        capped := rota.check_cap(lane, jsonb_array_length(payloads));
    END IF;
    IF def.tenant <> '' THEN
        PERFORM rota.check_quota(def.tenant, jsonb_array_length(payloads), octet_length(payloads::text));
    END IF;

    WITH inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by,
            limit_keys, limit_key, held_by, is_capped)
        SELECT id, id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
            lane, enqueue_batch.job, def.tenant,
            CASE WHEN pg_column_size(payload) > 4000 THEN rota.put_large_payload(id, payload) ELSE payload END,
            coalesce(enqueue_batch.priority, def.priority), coalesce(enqueue_batch.max_attempts, def.max_attempts),
            enqueue_batch.expires_at, enqueue_batch.timeout_seconds, enqueue_batch.backoff, def.tags,
            def.metadata, def.triggered_by, CASE WHEN NOT is_default THEN enqueue_batch.validated_by END,
            keys, keys[1], rota.hold_of(at <= def.clock, keys), capped
        FROM (SELECT w.*, CASE WHEN def.has_limits
            THEN rota.limit_keys_of(enqueue_batch.job, lane, def.tenant, NULL, w.payload) END AS keys FROM (
            SELECT nextval('rota.run_ids') AS id, jsonb_typeof(p.value) = 'null' AS is_default,
                   CASE WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes
                             AND (enqueue_batch.validated_by IS NOT NULL OR rota.is_plain_json(p.value)) THEN p.value
                        WHEN jsonb_typeof(p.value) = 'null' THEN coalesce(def.default_payload, '{}')
                        ELSE rota.refuse_payload(enqueue_batch.job, p.value, def.payload_bytes) END AS payload
            FROM jsonb_array_elements(payloads) AS p (value)
        ) w) wanted
        RETURNING id
    )
    -- Ids are drawn in the order of the payloads; in which rows come back is the server's choice.
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM inserted;

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
COMMENT ON FUNCTION rota.enqueue_batch
    IS 'Enqueues many runs of one job, one for each payload, and returns their ids in that order.';

-- enqueue_batch for programs: says also which of the runs were there already, as runs of a job with a key may be. Each
-- of those keys is a get-or-create of its own, which enqueue_many does.
-- Called by: enqueue_batch, sql/runs/enqueue_batch.sql.
CREATE FUNCTION rota.enqueue_uniform(
    job text, payloads jsonb, queue text, priority integer, run_at timestamptz, delay interval, expires_at timestamptz,
    tenant text, max_attempts integer, timeout_seconds double precision, backoff jsonb, tags text[], metadata jsonb,
    triggered_by jsonb, validated_by integer, expires_in interval
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    places integer[];
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.key IS NOT NULL AND j.name IN (enqueue_uniform.job,
            (SELECT n.job FROM rota.job_names n WHERE n.alias = enqueue_uniform.job)))
        OR jsonb_typeof(enqueue_uniform.payloads) IS DISTINCT FROM 'array' THEN
        RETURN QUERY
        SELECT id, false FROM unnest(rota.enqueue_batch(enqueue_uniform.job, enqueue_uniform.payloads,
            enqueue_uniform.queue, enqueue_uniform.priority, enqueue_uniform.run_at, enqueue_uniform.delay,
            enqueue_uniform.expires_at, enqueue_uniform.tenant, enqueue_uniform.max_attempts,
            enqueue_uniform.timeout_seconds, enqueue_uniform.backoff, enqueue_uniform.tags, enqueue_uniform.metadata,
            enqueue_uniform.triggered_by, enqueue_uniform.validated_by, enqueue_uniform.expires_in)) id;
        RETURN;
    END IF;
    places := ARRAY[jsonb_array_length(enqueue_uniform.payloads)];
    RETURN QUERY
    SELECT r.run_id, r.is_duplicate FROM rota.enqueue_many(jobs => ARRAY[enqueue_uniform.job],
        payloads => ARRAY(SELECT v.value FROM jsonb_array_elements(enqueue_uniform.payloads)
            WITH ORDINALITY AS v (value, n) ORDER BY v.n),
        queues => array_fill(enqueue_uniform.queue, places), priorities => array_fill(enqueue_uniform.priority, places),
        run_ats => array_fill(enqueue_uniform.run_at, places), delays => array_fill(enqueue_uniform.delay, places),
        expires_ats => array_fill(enqueue_uniform.expires_at, places),
        tenants => array_fill(enqueue_uniform.tenant, places),
        max_attempts => array_fill(enqueue_uniform.max_attempts, places),
        timeouts => array_fill(enqueue_uniform.timeout_seconds, places),
        backoffs => array_fill(enqueue_uniform.backoff, places),
        tags => array_fill(to_jsonb(enqueue_uniform.tags), places),
        metadatas => array_fill(enqueue_uniform.metadata, places), triggered_by => enqueue_uniform.triggered_by,
        validated_by => array_fill(enqueue_uniform.validated_by, places),
        expires_ins => array_fill(enqueue_uniform.expires_in, places)) r;
END $$;

-- Many runs at once: one statement for those without a key; those with one take the long way in the order of their
-- keys, as the finish does, so that two bulk callers cannot deadlock. Runs under limits wait for their admission. An
-- array that is NULL or too short means the default. jobs of length 1 holds for all.
-- Called by: emit_many, enqueue_uniform, sql/runs/enqueue_many.sql, users.
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
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer[] DEFAULT NULL,
    expires_ins interval[] DEFAULT NULL
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted  record;
    made    record;
    touched text[];
    soonest timestamptz;
    clock   timestamptz := rota.now();
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
    ids     bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(payloads)]);
    twins   boolean[] := array_fill(false, ARRAY[cardinality(payloads)]);
BEGIN
    IF EXISTS (SELECT FROM rota.job_names n WHERE n.alias = ANY (jobs)) THEN
        jobs := ARRAY(SELECT coalesce((SELECT n.job FROM rota.job_names n WHERE n.alias = w.job), w.job)
                      FROM unnest(jobs) WITH ORDINALITY AS w (job, n) ORDER BY w.n);
    END IF;
    IF EXISTS (SELECT FROM unnest(run_ats, delays) AS w (run_at, delay)
        WHERE w.run_at IS NOT NULL AND w.delay IS NOT NULL) THEN
        RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
    END IF;
    IF EXISTS (SELECT FROM rota.jobs j WHERE j.name = ANY (jobs)
        AND num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) > 0) THEN
        -- As enqueue_run takes them from the job.
        SELECT array_agg(coalesce(w.key, CASE WHEN j.key IS NOT NULL AND p.kind = 'object'
                   THEN rota.run_key(j.name, j.key, p.doc, j.payload_schema) END) ORDER BY w.n),
               array_agg(coalesce(nullif(w.tenant, ''), j.tenant, '') ORDER BY w.n),
               array_agg(CASE WHEN w.run_at IS NULL THEN coalesce(w.delay, make_interval(secs => j.delay_seconds))
                   ELSE w.delay END ORDER BY w.n),
               array_agg(CASE WHEN w.expires_at IS NULL
                   THEN coalesce(w.expires_in, make_interval(secs => j.expires_in_seconds))
                   ELSE w.expires_in END ORDER BY w.n)
        INTO keys, tenants, delays, expires_ins
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, run_ats, delays, expires_ats, keys,
            tenants, expires_ins) WITH ORDINALITY AS w (payload, job, run_at, delay, expires_at, key, tenant,
            expires_in, n)
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        CROSS JOIN LATERAL (SELECT d.doc, jsonb_typeof(d.doc) AS kind FROM (SELECT CASE jsonb_typeof(w.payload)
            WHEN 'null' THEN coalesce(j.default_payload, '{}') ELSE w.payload END AS doc) d) p
        WHERE w.n <= cardinality(payloads);
    END IF;
    IF EXISTS (SELECT FROM unnest(keys, on_conflicts, enqueue_many.key_seconds) AS w (key, on_conflict, seconds)
        WHERE w.key IS NULL AND (w.on_conflict <> 'return' OR w.seconds IS NOT NULL)) THEN
        RAISE EXCEPTION 'on_conflict and key_seconds require a key, but one of the runs has none'
            USING ERRCODE = 'RO002', HINT = 'Pass its key, or declare one for the job.';
    END IF;
    FOR wanted IN
        SELECT w.* FROM unnest(keys, tenants, payloads) WITH ORDINALITY AS w (key, tenant, payload, n)
        WHERE w.key IS NOT NULL ORDER BY coalesce(w.tenant, ''), jobs[least(w.n, cardinality(jobs))], w.key COLLATE "C",
            w.n
    LOOP
        SELECT * INTO made FROM rota.enqueue_run(
            job => jobs[least(wanted.n, cardinality(jobs))], payload => wanted.payload, queue => queues[wanted.n],
            priority => priorities[wanted.n], run_at => run_ats[wanted.n], delay => delays[wanted.n],
            expires_at => expires_ats[wanted.n], key => wanted.key, key_seconds => key_seconds[wanted.n],
            on_conflict => coalesce(on_conflicts[wanted.n], 'return'), tenant => coalesce(wanted.tenant, ''),
            max_attempts => max_attempts[wanted.n], timeout_seconds => timeouts[wanted.n],
            backoff => backoffs[wanted.n], tags => CASE WHEN tags[wanted.n] IS NOT NULL
                THEN ARRAY(SELECT jsonb_array_elements_text(tags[wanted.n])) END, metadata => metadatas[wanted.n],
            triggered_by => enqueue_many.triggered_by, validated_by => validated_by[wanted.n],
            expires_in => expires_ins[wanted.n]);
        ids[wanted.n] := made.run_id;
        twins[wanted.n] := made.is_duplicate;
    END LOOP;

    IF capped <> '{}' THEN
        PERFORM rota.check_cap(q.lane, q.runs)
        FROM (SELECT coalesce(w.queue, j.queue) AS lane, count(*) AS runs
              FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, keys) AS w (payload, job,
                  queue, key)
              JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1]) WHERE w.key IS NULL GROUP BY 1 ORDER BY 1) q
                  WHERE q.lane = ANY (capped);
    END IF;
    IF tenants IS NOT NULL THEN
        PERFORM rota.check_quota(q.tenant, q.runs, q.bytes)
        FROM (SELECT w.tenant, count(*) AS runs, sum(octet_length(w.payload::text)) AS bytes
            FROM unnest(tenants, payloads, keys) AS w (tenant, payload, key)
              WHERE w.tenant <> '' AND w.key IS NULL AND w.payload IS NOT NULL GROUP BY w.tenant ORDER BY w.tenant) q;
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT w.*, d.doc, coalesce(t.tag_list, nullif(j.tags, '{}')) AS all_tags,
               CASE jsonb_typeof(w.metadata) WHEN 'object' THEN j.metadata || w.metadata
                   ELSE nullif(j.metadata, '{}') END AS all_metadata,
               coalesce(w.job, jobs[1]) AS job_name, nextval('rota.run_ids') AS id,
               j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_max_attempts,
               CASE WHEN j.name IS NULL THEN rota.unknown_job(coalesce(w.job, jobs[1], '(NULL)')) END,
               rota.check_options(j.name, d.doc, s.payload_bytes, w.priority, w.max_attempts, w.timeout, w.queue,
                   w.metadata, w.backoff,
                                  w.run_at, w.delay, w.expires_at, NULL, t.tag_list, w.tenant,
                                  w.validated_by IS NOT NULL, w.expires_in),
               coalesce(w.run_at, clock + w.delay, clock) AS at
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, priorities, run_ats, delays,
            expires_ats,
                    keys, tenants, enqueue_many.max_attempts, timeouts, backoffs, enqueue_many.tags, metadatas,
                    enqueue_many.validated_by, expires_ins)
             WITH ORDINALITY AS w (payload, job, queue, priority, run_at, delay, expires_at, key, tenant, max_attempts,
                                   timeout, backoff, tags, metadata, validated_by, expires_in, n)
        CROSS JOIN rota.settings s
        CROSS JOIN LATERAL (SELECT CASE WHEN w.tags IS NOT NULL
            THEN ARRAY(SELECT jsonb_array_elements_text(w.tags)) END AS tag_list) t
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(w.payload) WHEN 'null' THEN coalesce(j.default_payload, '{}')
            ELSE w.payload END AS doc) d
        WHERE w.key IS NULL ORDER BY w.n
    ), inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by,
            limit_keys, limit_key, held_by, is_capped)
        SELECT id, id, clock, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''),
            CASE WHEN pg_column_size(doc) > 4000 THEN rota.put_large_payload(id, doc) ELSE doc END,
            coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), coalesce(expires_at, at + expires_in), timeout, backoff,
            all_tags, all_metadata,
            rota.told_by(enqueue_many.triggered_by), CASE WHEN jsonb_typeof(payload) <> 'null' THEN validated_by END,
            keys, keys[1], rota.hold_of(at <= clock, keys), coalesce(queue, job_queue) = ANY (capped)
        FROM (SELECT w.*, CASE WHEN limited THEN rota.limit_keys_of(w.job_name, coalesce(w.queue, w.job_queue),
            coalesce(w.tenant, ''), NULL, w.doc) END AS keys
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

-- Refuses a payload (RO018) and options (RO002) that no run can have, in words. Every way in asks it: enqueue_run,
-- enqueue_batch, enqueue_many. is_checked: the payload was looked at already. No attempt can keep a timeout shorter
-- than a millisecond: it would only ever time out.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, refuse_payload, retry_refused, retry_run.
CREATE FUNCTION rota.check_options(
    job text, payload jsonb, payload_bytes integer, priority integer, max_attempts integer,
    timeout_seconds double precision, queue text, metadata jsonb, backoff jsonb,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, tags text[] DEFAULT NULL, tenant text DEFAULT NULL,
    is_checked boolean DEFAULT false, expires_in interval DEFAULT NULL
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fault text;
    hint  text := '';
    field text := '';
    code  text := 'RO002';
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        field := 'payload';
        fault := format('the payload of job "%s" must be a JSON object of its arguments, not %s', job,
            coalesce(jsonb_typeof(payload), 'NULL'));
        hint := 'Write for example {"user_id": 7}.';
        code := 'RO018';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        field := 'payload';
        fault := format('the payload of job "%s" has %s bytes; the limit is %s', job, pg_column_size(payload),
            payload_bytes);
        hint := 'Store the data elsewhere and enqueue a reference to it, or raise runs.payload_bytes.';
        code := 'RO018';
    ELSIF NOT (is_checked OR rota.is_plain_json(payload)) OR NOT rota.is_plain_json(metadata)
        OR NOT rota.is_plain_json(backoff) THEN
        fault := format(
            'the %s of job "%s" is nested deeper than 100 levels, or contains a number that is too large',
            CASE WHEN NOT (is_checked OR rota.is_plain_json(payload)) THEN 'payload'
                WHEN NOT rota.is_plain_json(metadata) THEN 'metadata' ELSE 'backoff' END, job);
        hint := 'The largest number is 1.7976931348623157e308; pass larger ones as strings.';
        code := CASE WHEN is_checked OR rota.is_plain_json(payload) THEN code ELSE 'RO018' END;
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        field := 'priority';
        fault := format('priority %s of job "%s" is not between 0 (first) and 9 (last)', priority, job);
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        field := 'max_attempts';
        fault := format('max_attempts %s of job "%s" is not between 1 and 100', max_attempts, job);
    ELSIF timeout_seconds < 0.001 THEN
        field := 'timeout_seconds';
        fault := format('timeout_seconds %s of job "%s" is less than 0.001 (a millisecond)', timeout_seconds, job);
    ELSIF timeout_seconds > 31536000 THEN
        field := 'timeout_seconds';
        fault := format('timeout_seconds %s of job "%s" is more than 31536000 (a year)', timeout_seconds, job);
    ELSIF queue = '' OR length(queue) > 100 THEN
        field := 'queue';
        fault := format('the queue name of job "%s" must have 1 to 100 characters', job);
    ELSIF jsonb_typeof(metadata) <> 'object' OR jsonb_typeof(backoff) <> 'object' THEN
        fault := format('metadata and backoff of job "%s" must be JSON objects', job);
    ELSIF backoff IS NOT NULL AND rota.backoff_fault(backoff) IS NOT NULL THEN
        field := 'backoff';
        fault := format('job "%s": %s', job, rota.backoff_fault(backoff));
        hint := 'Use kind, base_seconds, factor (at least 1), cap_seconds and jitter_seconds (at least 0).';
    ELSIF NOT rota.is_instant(run_at) THEN
        field := 'run_at';
        fault := format('run_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)', run_at,
            job);
    ELSIF NOT rota.is_instant(expires_at) THEN
        field := 'expires_at';
        fault := format('expires_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)',
            expires_at, job);
        hint := 'Omit it for a run that never expires.';
    ELSIF expires_at IS NOT NULL AND expires_in IS NOT NULL THEN
        fault := format('expires_at and expires_in of job "%s" cannot be combined', job);
    ELSIF (expires_in > interval '0' AND expires_in <= interval '100 years') IS FALSE THEN
        field := 'expires_in';
        fault := format('expires_in %s of job "%s" is not between 0 and 100 years', expires_in, job);
        hint := 'Omit it for a run that never expires.';
    ELSIF delay NOT BETWEEN interval '0' AND interval '100 years' THEN
        field := 'delay';
        fault := format('delay %s of job "%s" is not between 0 and 100 years', delay, job);
    ELSIF key_seconds < 0 OR key_seconds > 3153600000 AND key_seconds <> 'infinity' THEN
        field := 'key_seconds';
        fault := format('key_seconds %s of job "%s" is not between 0 and 3153600000 (100 years)', key_seconds, job);
        hint := 'Pass infinity to keep the key for ever.';
    ELSIF tags IS NOT NULL AND (NOT rota.is_plain_list(tags) OR EXISTS (SELECT FROM unnest(tags) t
        WHERE length(t) NOT BETWEEN 1 AND 100)) THEN
        field := 'tags';
        fault := format('tags of job "%s" must be a list of strings of 1 to 100 characters', job);
    ELSIF tenant <> '' AND rota.tenant_fault(tenant) IS NOT NULL THEN
        field := 'tenant';
        fault := format('the tenant of job "%s" %s, not %s', job, rota.tenant_fault(tenant), to_json(left(tenant, 60)));
        hint := 'Use an ID or a short name, such as acme or customer-17.';
    ELSE
        RETURN;
    END IF;
    IF hint = '' THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = code, COLUMN = field, DETAIL = jsonb_build_object('job', job);
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = code, COLUMN = field, HINT = hint,
        DETAIL = jsonb_build_object('job', job), CONSTRAINT = CASE field WHEN 'key_seconds' THEN 'key_seconds_out_of_range' ELSE '' END;
END $$;

-- What is wrong with a backoff; NULL: nothing.
-- Called by: check_job, check_options.
CREATE FUNCTION rota.backoff_fault(backoff jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    part record;
BEGIN
    IF jsonb_typeof(backoff) <> 'object' THEN
        RETURN 'backoff must be a JSON object';
    ELSIF coalesce(backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        RETURN format('backoff kind must be one of exponential, linear, fixed, not "%s"', backoff ->> 'kind');
    END IF;
    FOR part IN SELECT * FROM jsonb_each(backoff - 'kind') LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds')
            OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            RETURN format('backoff has an invalid option "%s": %s', part.key, left(part.value::text, 40));
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Says what is wrong with a payload that a cheap look found wrong. It returns the type of a payload and stands in
-- its place, so that no planner leaves it out.
-- Called by: enqueue_batch.
CREATE FUNCTION rota.refuse_payload(job text, payload jsonb, payload_bytes integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    PERFORM rota.check_options(job, payload, payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL);
    RETURN payload;
END $$;

-- A time plus seconds, whatever their number: a sum outside the valid range is cut to a hundred years. A sum that
-- fails would keep a run from ending, and with it all runs that end in the same statement.
-- Called by: many.
CREATE FUNCTION rota.after(at timestamptz, seconds double precision) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds IS NULL THEN NULL
                WHEN seconds = 'infinity' THEN 'infinity'
                WHEN seconds = 'NaN' THEN at
                ELSE at + make_interval(secs => greatest(-3153600000, least(seconds, 3153600000))) END
$$;

-- Sends a call: every NOTIFY of Rota is sent here. A transaction that has sent one cannot be prepared for a two-phase
-- commit, and whether an enqueue calls anybody depends on who waits. `SET LOCAL rota.notify = off` says that nobody is
-- to be called by this transaction; polls find what it has enqueued.
-- Called by: call_workers, pass_over_silent, tell_waiting, wake, wake_admission.
CREATE FUNCTION rota.notify(channel text, words text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF coalesce(lower(current_setting('rota' || '.notify', true)), '') NOT IN ('off', 'false', 'no', '0') THEN
        PERFORM pg_notify(channel, words);
    END IF;
END $$;

-- Calls all workers of this schema.
-- Called by: many.
CREATE FUNCTION rota.call_workers(words text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.notify(s.channel, words) FROM rota.settings s;
END $$;

-- Calls those who have to do with runs that were just put in line: `queues` are those of runs that can be claimed now,
-- `holds` what holds the others (NULL among them is nothing), `until_due` is the time until the next of those for
-- later.
-- Called by: many.
CREATE FUNCTION rota.wake_for(queues text[], holds text[] DEFAULT NULL, until_due interval DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF queues IS NOT NULL THEN
        PERFORM rota.wake(queues);
    END IF;
    IF 'limit' = ANY (holds) THEN
        PERFORM rota.wake_admission();
    END IF;
    IF 'suspect' = ANY (holds) THEN
        PERFORM rota.call_workers('suspects');
    END IF;
    IF until_due IS NOT NULL THEN
        PERFORM rota.wake_later(until_due);
    END IF;
END $$;

-- Calls whoever isolates suspects, if there are any: what kept them back is over.
-- Called by: audit_job, note_queue_pause, rename_job.
CREATE FUNCTION rota.wake_isolation() RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect') THEN
        PERFORM rota.call_workers('suspects');
    END IF;
END $$;

-- Calls whoever waits for work in these queues: one of each kind (workers of the same jobs), and one more that
-- watches. Under READ COMMITTED a worker that is not waiting yet will look again by itself (see claim_runs); above
-- it, the caller's view of the flag is as old as its snapshot, so it calls everybody. Nothing is written, and the
-- index is used also where the server knows nothing of the table.
-- Called by: many.
CREATE FUNCTION rota.wake(queues text[], most integer DEFAULT 1) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    called text;
    one    record;
    kind   bigint;
    lowest bigint;    -- kind to look at; a condition of the index, whatever is planned
    met    integer;   -- workers of this kind
    seen   integer;   -- rows of one look
BEGIN
    FOREACH called IN ARRAY queues LOOP
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM rota.call_workers('queue ' || called);
            CONTINUE;
        END IF;
        lowest := -9223372036854775808;
        LOOP
            seen := 0;
            met := 0;
            FOR one IN
                SELECT w.job_set, w.channel, w.is_looking FROM rota.workers w
                WHERE w.is_waiting AND w.job_set >= lowest AND (w.queues = '{}' OR called = ANY (w.queues))
                  AND w.drain_requested_at IS NULL AND w.lease_expires_at > clock_timestamp()
                ORDER BY w.job_set, w.is_looking DESC, w.id LIMIT most + 2
            LOOP
                seen := seen + 1;
                IF seen = 1 THEN
                    kind := one.job_set;
                ELSIF one.job_set <> kind THEN
                    seen := most + 2;   -- there are more kinds
                    EXIT;
                END IF;
                met := met + 1;
                EXIT WHEN one.is_looking OR met > most + 1;
                IF one.channel IS NULL THEN
                    PERFORM rota.call_workers('queue ' || called);
                ELSE
                    PERFORM rota.notify(one.channel, CASE WHEN met <= most THEN 'queue ' ELSE 'watch ' END || called);
                END IF;
            END LOOP;
            EXIT WHEN seen < most + 2 AND NOT coalesce(one.is_looking, false);
            EXIT WHEN seen = 0 OR kind = 9223372036854775807;
            lowest := kind + 1;
        END LOOP;
    END LOOP;
END $$;

-- Calls the promoters for a run that is due soon. Later than a minute needs no call: they look
-- at least that often. A moment ahead always calls: a busy worker does not say that it waits.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, note_queue_pause, retry_run, wake_for, write_ticks.
CREATE FUNCTION rota.wake_later(until_due interval) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    IF until_due <= interval '2 seconds'
       OR until_due <= interval '1 minute' AND EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting) THEN
        PERFORM rota.call_workers('due');
    END IF;
END $$;

-- A worker says whether it waits for calls (is_waiting), whether it looks by itself (is_looking), and where it hears
-- them (channel). This is the state of the hand-shake that loses no wake-up: a worker sets its flag, commits, notes
-- the next transaction id, and claims again until every transaction before it has ended.
-- Called by: sql/workers/answer_calls.sql.
CREATE FUNCTION rota.answer_calls(for_worker bigint, waiting boolean, polling boolean, own_channel text) RETURNS void
LANGUAGE sql VOLATILE SET jit = off SET lock_timeout = '100ms' AS $$
    UPDATE rota.workers SET is_waiting = waiting, is_looking = waiting AND polling, channel = own_channel
    WHERE id = for_worker AND state IN ('live', 'stopping')
      AND (is_waiting, is_looking, channel) IS DISTINCT FROM (waiting, waiting AND polling, own_channel)
$$;

-- Trigger: a worker that stops waiting stops looking too, whichever statement says so.
CREATE FUNCTION rota.end_looking() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    NEW.is_looking := false;
    RETURN NEW;
END $$;
CREATE TRIGGER end_looking BEFORE UPDATE OF is_waiting ON rota.workers
    FOR EACH ROW WHEN (OLD.is_looking AND NOT NEW.is_waiting AND NEW.is_looking) EXECUTE FUNCTION rota.end_looking();

-- A worker has more than it can do: others are called in its place, two of them, so that a fleet is awake in a few
-- steps. Whether there is more is looked up in each queue, and not read from all that is open; what is held waits
-- for nobody who could be called.
-- Called by: sql/workers/pass_on.sql.
CREATE FUNCTION rota.pass_on(for_worker bigint, queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET lock_timeout = '100ms'
SET jit = off AS $$
BEGIN
    UPDATE rota.workers SET is_waiting = false WHERE id = for_worker AND is_waiting;
    PERFORM rota.wake(ARRAY(
        SELECT q.name FROM unnest(pass_on.queues) AS q (name)
        WHERE (SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.queue = q.name AND o.state = 'queued'
               ORDER BY o.queue, o.tenant, o.priority, o.seq LIMIT 1) IS NOT NULL), 2);
END $$;

-- Tells those workers who would have been called before this one, and did not take what it has found. Whoever hears
-- it waits again when it has nothing to do. One that is stopped, or whose connection is half open, hears nothing and
-- is called no more.
-- Called by: sql/workers/pass_over.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.pass_over_silent(for_worker bigint, in_queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    one text;
BEGIN
    FOR one IN
        UPDATE rota.workers SET is_waiting = false WHERE id IN (
            SELECT w.id FROM rota.workers w JOIN rota.workers own ON own.id = for_worker
            WHERE w.is_waiting AND w.job_set = own.job_set AND w.id <> own.id
              AND (w.queues = '{}' OR w.queues && in_queues) AND (w.is_looking OR w.id < own.id OR NOT own.is_waiting)
            FOR UPDATE OF w SKIP LOCKED)
        RETURNING channel
    LOOP
        PERFORM rota.notify(one, 'passed') WHERE one IS NOT NULL;
    END LOOP;
END $$;

-- Who waits for a run says so here and listens on a channel of its own; the end of such a run calls it. Ends of other
-- runs look at one row in each statement. Not logged: after a crash the waiting ask, and say it again.
CREATE UNLOGGED TABLE rota.waits (
    run_id  bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (run_id, channel)
);

-- Whether anybody waits at all: until when somebody may. A row of its own, because a table that is filled and emptied
-- all the time takes long to be found empty while an old snapshot is held.
CREATE UNLOGGED TABLE rota.wait_marks (
    until timestamptz NOT NULL
);

-- Says that somebody waits for these runs, until a time; said again before that is over. Returns which of them are
-- not open: those need not be waited for.
-- Called by: sql/waits/await.sql.
CREATE FUNCTION rota.await_runs(channel text, ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock + interval '1 minute') THEN
        UPDATE rota.wait_marks m SET until = clock + interval '2 minutes' WHERE m.until < clock + interval '1 minute';
        INSERT INTO rota.wait_marks (until) SELECT clock + interval '2 minutes'
        WHERE NOT EXISTS (SELECT FROM rota.wait_marks);
        -- Of those who went without a word.
        DELETE FROM rota.waits w WHERE w.until < clock;
    END IF;
    INSERT INTO rota.waits AS w (run_id, channel, until)
    SELECT DISTINCT i.id, await_runs.channel, clock + interval '2 minutes' FROM unnest(await_runs.ids) i (id)
    ORDER BY i.id
    ON CONFLICT (run_id, channel) DO UPDATE SET until = excluded.until;
    RETURN QUERY
    SELECT i.id FROM unnest(await_runs.ids) i (id)
    WHERE NOT EXISTS (SELECT FROM rota.open_runs o
                      WHERE o.id = i.id AND (o.expires_at IS NULL OR o.expires_at > rota.now()
                          OR (o.state = 'running' AND o.started_at < o.expires_at)));
END $$;

-- Calls those who wait for these runs, which have ended, or most of them: with what became of a run and, in a second
-- line, its result; with its id alone where that is too long for a call, or unknown: then they look. Asked after the
-- ends were written, with a snapshot of its own.
-- Called by: end_waiting_runs, finish_runs, finish_span.
CREATE FUNCTION rota.tell_waiting(ids bigint[], ended_at timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM rota.notify(w.channel, CASE WHEN octet_length(e.words) < 7900 THEN e.words ELSE w.run_id::text END)
    FROM unnest(tell_waiting.ids) i (id)
    JOIN rota.waits w ON w.run_id = i.id
    LEFT JOIN LATERAL (
        SELECT json_build_object('id', r.id, 'state', r.state, 'end_reason', r.end_reason, 'last_error', r.error)
            || coalesce(E'\n' || r.result::text, '') AS words
        FROM rota.ended_runs r
        WHERE r.id = i.id AND r.finished_at = tell_waiting.ended_at AND coalesce(pg_column_size(r.result), 0) < 7900
    ) e ON true
    WHERE e.words IS NOT NULL OR NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.id);
END $$;
