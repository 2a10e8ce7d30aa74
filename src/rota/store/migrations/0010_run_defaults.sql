-- What a job says of its runs: a delay, an expiry, a key made of the payload and a tenant, which every enqueue without
-- takes; its tags, its metadata and its default payload reach the runs, too. Enqueues take expires_in, and remember
-- who acts. The functions that take one argument more are made anew; who calls them by the names of their arguments,
-- as the release before does, need not know.
ALTER TABLE rota.jobs
    ADD COLUMN delay_seconds double precision,
    ADD COLUMN expires_in_seconds double precision,
    ADD COLUMN key text COLLATE "C",
    ADD COLUMN tenant text COLLATE "C",
    ADD CONSTRAINT jobs_delay CHECK (delay_seconds >= 0),
    ADD CONSTRAINT jobs_expires_in CHECK (expires_in_seconds > 0);

-- The release of a worker's application, which it says when it starts.
ALTER TABLE rota.workers ADD COLUMN release text;
COMMENT ON COLUMN rota.workers.release IS 'the release of its application, as the application says; NULL: it says none';

-- Functions name others that come further down.
SET LOCAL check_function_bodies = off;

DROP FUNCTION rota.check_options(text, jsonb, integer, integer, integer, double precision, text, jsonb, jsonb, timestamptz, interval, timestamptz, double precision, text[], text, boolean);
DROP FUNCTION rota.enqueue(text, jsonb, text, integer, timestamptz, interval, timestamptz, text, double precision, text, text, integer, double precision, jsonb, text[], jsonb);
DROP FUNCTION rota.enqueue_batch(text, jsonb, text, integer, timestamptz, interval, timestamptz, text, integer, double precision, jsonb, text[], jsonb, jsonb, integer);
DROP FUNCTION rota.enqueue_many(text[], jsonb[], text[], integer[], timestamptz[], interval[], timestamptz[], text[], double precision[], text[], text[], integer[], double precision[], jsonb[], jsonb[], jsonb[], jsonb, integer[]);
DROP FUNCTION rota.enqueue_run(text, jsonb, text, integer, timestamptz, interval, timestamptz, text, double precision, text, text, integer, double precision, jsonb, text[], jsonb, jsonb, integer);
DROP FUNCTION rota.start_worker(bigint, text, text, boolean);

-- What is wrong with the template of a key, in words; NULL: nothing.
-- Called by: check_run_defaults.
CREATE FUNCTION rota.key_fault(template text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN template !~ '^[^[:cntrl:]]{1,200}$' THEN 'needs 1 to 200 characters'
        WHEN regexp_replace(template, '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN 'has a brace that is not round the name of an argument' END
$$;

-- Trigger: says what is wrong with what a job's runs have that are enqueued without. Every nominal time of a schedule
-- has a run of its own, so that its job cannot say that two of them are one; bursts of events have keys of their own.
-- Code that meets what a person has set, or the other way round, does without the key and warns: a worker has to start.
CREATE FUNCTION rota.check_run_defaults() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found   text := (SELECT min(s.name) FROM rota.schedules s WHERE s.job = NEW.name);
    unknown text := (SELECT min(m[1]) FROM regexp_matches(NEW.key, '\{([A-Za-z_][A-Za-z0-9_]*)', 'g') m
        WHERE jsonb_typeof(NEW.payload_schema -> 'properties') = 'object'
          AND NOT NEW.payload_schema -> 'properties' ? m[1]);
BEGIN
    IF rota.is_syncing() AND NEW.key IS NOT NULL AND num_nonnulls(NEW.event_delivery, found, unknown) > 0 THEN
        RAISE WARNING 'job "%" does without its key "%": %', NEW.name, NEW.key, CASE
            WHEN NEW.event_delivery IS NOT NULL THEN 'it has an event_delivery'
            WHEN found IS NOT NULL THEN format('it has a schedule, "%s"', found)
            ELSE format('%s is no argument', unknown) END;
        NEW.key := NULL;
    END IF;
    NEW.tenant := nullif(NEW.tenant, '');
    IF NEW.delay_seconds NOT BETWEEN 0 AND 3153600000 OR NEW.delay_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('delay_seconds %s is not between 0 and 3153600000 (100 years)',
            NEW.delay_seconds));
    ELSIF NEW.expires_in_seconds NOT BETWEEN 0.001 AND 3153600000 OR NEW.expires_in_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('expires_in_seconds %s is not between 0.001 and 3153600000 (100 years)',
            NEW.expires_in_seconds));
    ELSIF rota.key_fault(NEW.key) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" %s', left(NEW.key, 60), rota.key_fault(NEW.key)),
            'Write for example invoice:{invoice_id}.');
    ELSIF unknown IS NOT NULL AND NEW.key IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" names %s, which is no argument', NEW.key, unknown));
    ELSIF NEW.key IS NOT NULL AND NEW.event_delivery IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'key and event_delivery exclude each other',
            'event_delivery has a key of its own.');
    ELSIF NEW.key IS NOT NULL AND found IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('it has a schedule, "%s", so that it cannot have a key', found),
            'The overlap of a schedule says what happens while its last run has not ended.');
    ELSIF rota.tenant_fault(NEW.tenant) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its tenant %s', rota.tenant_fault(NEW.tenant)));
    END IF;
    RETURN NEW;
END $$;
-- Its name comes after jobs_event_delivery: that one has taken the rule from the code.
CREATE TRIGGER jobs_run_defaults BEFORE INSERT OR UPDATE ON rota.jobs FOR EACH ROW
    WHEN (num_nonnulls(NEW.delay_seconds, NEW.expires_in_seconds, NEW.key, NEW.tenant) > 0)
    EXECUTE FUNCTION rota.check_run_defaults();

-- Workers start one after the other here (lock "fleet"): one that finds nobody live opens the next fleet. One that
-- comes back after it lost its lease starts nothing.
-- Called by: sql/workers/start.sql.
-- Locks: "fleet".
CREATE FUNCTION rota.start_worker(for_worker bigint, of_application text, of_build text, is_new boolean,
    of_release text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM rota.take_lock('fleet');
    INSERT INTO rota.fleets AS f (application, number)
    SELECT a, 1 FROM unnest(ARRAY['', of_application]) a
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.application IS NOT NULL AND a IN ('', w.application)
                      AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
                      AND w.id <> for_worker)
    ORDER BY a
    ON CONFLICT (application) DO UPDATE SET number = f.number + 1, started_at = rota.now() WHERE is_new;
    UPDATE rota.workers SET application = of_application, build = of_build, is_start = is_start OR is_new,
        release = of_release
    WHERE id = for_worker;
END $$;

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
    filled text := template;
    field  text;
    path   text[];
    value  text;
BEGIN
    FOR field IN SELECT DISTINCT m[1] FROM regexp_matches(template, '\{([^}]+)\}', 'g') m LOOP
        path := string_to_array(field, '.');
        value := coalesce(payload #>> path, CASE WHEN NOT payload ? path[1]
            THEN payload_schema #>> (ARRAY['properties', path[1], 'default'] || path[2:]) END);
        IF value IS NULL THEN
            RAISE EXCEPTION 'the key "%" of job "%" needs %, which the payload does not have', template, job, field
                USING ERRCODE = 'RO002', HINT = 'Give the payload a value for it, or the run a key of its own.';
        END IF;
        filled := replace(filled, '{' || field || '}', value);
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
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(enqueue_run.job);
    END IF;
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
            RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace', 'debounce', 'throttle') THEN
            RAISE EXCEPTION 'on_conflict is "%"; it is one of return, raise, replace, debounce, throttle',
                enqueue_run.on_conflict USING ERRCODE = 'RO002';
        ELSIF enqueue_run.key IS NULL AND enqueue_run.on_conflict IN ('raise', 'replace')
            OR enqueue_run.key IS NULL AND enqueue_run.key_seconds IS NOT NULL THEN
            RAISE EXCEPTION '% says what becomes of a key, but the run of job "%" has none',
                CASE WHEN enqueue_run.key_seconds IS NULL THEN 'on_conflict' ELSE 'key_seconds' END, enqueue_run.job
                USING ERRCODE = 'RO002', HINT = 'Give it a key => ''…'', or the job a key for all of its runs.';
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
                    USING ERRCODE = 'RO003', DETAIL = holder::text;
            ELSIF enqueue_run.on_conflict IN ('replace', 'debounce') THEN
                -- SKIP LOCKED: a row that a worker is taking right now counts as running.
                UPDATE rota.open_runs o
                SET payload = def.payload, validated_by = def.validated_by, queue = enqueue_run.queue,
                    priority = coalesce(enqueue_run.priority, def.priority), run_at = at,
                    state = CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
                    held_by = CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END,
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
                          OR w.state = 'queued' AND NOT is_burst) AND NOT w.is_suspect
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
        ELSE 'queued' END, enqueue_run.queue, enqueue_run.job, enqueue_run.tenant, def.payload,
        coalesce(enqueue_run.priority, def.priority), coalesce(enqueue_run.max_attempts, def.max_attempts),
        coalesce(enqueue_run.expires_at, at + enqueue_run.expires_in), enqueue_run.timeout_seconds, enqueue_run.key,
        enqueue_run.key_seconds, enqueue_run.backoff, def.tags, def.metadata, def.triggered_by, def.validated_by, keys,
        keys[1],
        CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped);

    IF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[enqueue_run.queue]);
    END IF;
END $$;

-- One enqueue without options, or with a queue or a priority only: what enqueue_run does for it, in fewer
-- expressions, because PL/pgSQL prepares each of them anew in each transaction. Anything unusual, limits and defaults
-- of the job among it, is left to enqueue_run. The id is not the last of the session where a run has the key already.
-- Called by: sql/runs/enqueue_plain.sql.
CREATE OR REPLACE FUNCTION rota.enqueue_plain(
    job text, payload jsonb, queue text DEFAULT NULL, priority integer DEFAULT NULL, triggered_by jsonb DEFAULT NULL,
    validated_by integer DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
      AND pg_column_size(enqueue_plain.payload) <= s.payload_bytes
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
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(coalesce(enqueue_batch.job, '(NULL)'));
    ELSIF jsonb_typeof(payloads) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payloads of job "%" must be a JSON array of objects', job USING ERRCODE = 'RO002';
    ELSIF enqueue_batch.run_at IS NOT NULL AND enqueue_batch.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
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
            lane, enqueue_batch.job, def.tenant, payload,
            coalesce(enqueue_batch.priority, def.priority), coalesce(enqueue_batch.max_attempts, def.max_attempts),
            enqueue_batch.expires_at, enqueue_batch.timeout_seconds, enqueue_batch.backoff, def.tags,
            def.metadata, def.triggered_by, CASE WHEN NOT is_default THEN enqueue_batch.validated_by END,
            keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped
        FROM (SELECT w.*, CASE WHEN def.has_limits
            THEN rota.limit_keys_of(enqueue_batch.job, lane, def.tenant, NULL, w.payload) END AS keys FROM (
            SELECT nextval('rota.run_ids') AS id, jsonb_typeof(p.value) = 'null' AS is_default,
                   CASE WHEN jsonb_typeof(p.value) = 'null' THEN coalesce(def.default_payload, '{}')
                        WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes
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
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = enqueue_uniform.job AND j.key IS NOT NULL)
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
    IF EXISTS (SELECT FROM unnest(run_ats, delays) AS w (run_at, delay)
        WHERE w.run_at IS NOT NULL AND w.delay IS NOT NULL) THEN
        RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
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
        RAISE EXCEPTION 'on_conflict and key_seconds say what becomes of a key, but one of the runs has none'
            USING ERRCODE = 'RO002', HINT = 'Give it one in keys, or the job a key for all of its runs.';
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
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''), doc, coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), coalesce(expires_at, at + expires_in), timeout, backoff,
            all_tags, all_metadata,
            rota.told_by(enqueue_many.triggered_by), CASE WHEN jsonb_typeof(payload) <> 'null' THEN validated_by END,
            keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock
            THEN 'limit' END, coalesce(queue, job_queue) = ANY (capped)
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
-- Called by: enqueue_batch, enqueue_many, enqueue_run, refuse_payload, retry_run.
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
    code  text := 'RO002';
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        fault := format('the payload of job "%s" must be a JSON object of its arguments, not %s', job,
            coalesce(jsonb_typeof(payload), 'NULL'));
        hint := 'Write for example {"user_id": 7}.';
        code := 'RO018';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        fault := format('the payload of job "%s" has %s bytes; the limit is %s', job, pg_column_size(payload),
            payload_bytes);
        hint := 'Store the data elsewhere and enqueue its address, or raise runs.payload_bytes.';
        code := 'RO018';
    ELSIF NOT (is_checked OR rota.is_plain_json(payload)) OR NOT rota.is_plain_json(metadata)
        OR NOT rota.is_plain_json(backoff) THEN
        fault := format(
            'the %s of job "%s" is nested deeper than 100 levels, or holds a number that JSON''s readers cannot hold',
            CASE WHEN NOT (is_checked OR rota.is_plain_json(payload)) THEN 'payload'
                WHEN NOT rota.is_plain_json(metadata) THEN 'metadata' ELSE 'backoff' END, job);
        hint := 'Numbers go up to 1.7976931348623157e308; write larger ones as text.';
        code := CASE WHEN is_checked OR rota.is_plain_json(payload) THEN code ELSE 'RO018' END;
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        fault := format('priority %s of job "%s" is not between 0 (first) and 9 (last)', priority, job);
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        fault := format('max_attempts %s of job "%s" is not between 1 and 100', max_attempts, job);
    ELSIF timeout_seconds < 0.001 THEN
        fault := format('timeout_seconds %s of job "%s" is less than 0.001 (a millisecond)', timeout_seconds, job);
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
        fault := format('run_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)', run_at,
            job);
    ELSIF NOT rota.is_instant(expires_at) THEN
        fault := format('expires_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)',
            expires_at, job);
        hint := 'Leave it out for a run that never expires.';
    ELSIF expires_at IS NOT NULL AND expires_in IS NOT NULL THEN
        fault := format('expires_at and expires_in of job "%s" exclude each other', job);
    ELSIF (expires_in > interval '0' AND expires_in <= interval '100 years') IS FALSE THEN
        fault := format('expires_in %s of job "%s" is not between 0 and 100 years', expires_in, job);
        hint := 'Leave it out for a run that never expires.';
    ELSIF delay NOT BETWEEN interval '-100 years' AND interval '100 years' THEN
        fault := format('delay %s of job "%s" is more than 100 years', delay, job);
    ELSIF key_seconds < 0 OR key_seconds > 3153600000 AND key_seconds <> 'infinity' THEN
        fault := format('key_seconds %s of job "%s" is not between 0 and 3153600000 (100 years)', key_seconds, job);
        hint := 'infinity keeps the key for ever.';
    ELSIF tags IS NOT NULL AND (NOT rota.is_plain_list(tags) OR EXISTS (SELECT FROM unnest(tags) t
        WHERE length(t) NOT BETWEEN 1 AND 100)) THEN
        fault := format('tags of job "%s" must be one list of texts of 1 to 100 characters', job);
    ELSIF tenant <> '' AND rota.tenant_fault(tenant) IS NOT NULL THEN
        fault := format('the tenant of job "%s" %s, not %s', job, rota.tenant_fault(tenant), to_json(left(tenant, 60)));
        hint := 'An id or a short name of your customer will do: acme, customer-17.';
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = code, HINT = hint;
END $$;

-- The tick, second half: one statement writes cursors, ledger and runs, for those schedules only that are as they
-- were read. ticks is an array of {id, version, cursor_at, new_cursor_at, next_run_at, segments, is_resumed,
-- is_moved, is_finished, occurrences: [{nominal_at, through_at, count, decision, reason, is_moved, start_at,
-- is_held, details}]}. Answers the ids that were written; the others have changed and are due again, or somebody
-- holds them: those are passed over, and not waited for. Runs under limits wait for their admission.
-- Called by: sql/schedules/write_ticks.sql.
-- Locks: rows that nobody else has locked.
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
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick
    -- decides again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
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
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o
                WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]'
                OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.version = t.version AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds,
            s.run_tags, s.run_metadata, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, m.tenant, m.name, m.job, m.payload, m.queue, coalesce(m.priority, j.priority) AS priority,
            m.max_attempts, m.timeout_seconds, m.run_tags, m.run_metadata, m.last_success_for, o.*
        FROM moved m LEFT JOIN rota.jobs j ON j.name = m.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(m.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id
        FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule,
            is_moved, details, claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason,
            w.tenant, w.name, coalesce(w.is_moved, false), w.details, clock, clock_timestamp() + (SELECT clock_offset
                FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL
                THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant,
            payload, priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, limit_keys, limit_key, is_capped, expires_at)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), d.at,
            CASE WHEN d.at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' WHEN k.keys IS NOT NULL AND d.at <= clock THEN 'limit' END,
            coalesce(w.queue, j.queue), w.job, d.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, coalesce(w.run_tags, nullif(j.tags, '{}')),
            coalesce(j.metadata || w.run_metadata, nullif(j.metadata, '{}')),
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END,
                'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id, k.keys, k.keys[1], coalesce(w.queue, j.queue) = ANY (capped),
            d.at + make_interval(secs => j.expires_in_seconds)
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        CROSS JOIN LATERAL (SELECT w.start_at + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            coalesce(nullif(w.tenant, ''), j.tenant, '') AS tenant) d
        CROSS JOIN LATERAL (SELECT CASE WHEN limited
            THEN rota.limit_keys_of(w.job, coalesce(w.queue, j.queue), d.tenant, w.name,
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
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0,
            version = s.version + 1
        WHERE s.id = ANY (resumed);
    END IF;
    IF arrived IS NOT NULL THEN
        UPDATE rota.schedules s SET moved_to = NULL, version = s.version + 1 WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may
        -- have made room.
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
        DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL
            AND s.delete_when_finished;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;

-- Writes what code says into jobs that are new or changed, without what somebody has edited since.
-- Called by: register_jobs.
CREATE OR REPLACE FUNCTION rota.write_definitions(of_application text, definitions jsonb, changed text[], forced text[])
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    other text := (SELECT min(j.name) FROM rota.jobs j
        WHERE j.name = ANY (changed) AND to_jsonb(j) ->> 'kind' <> 'python');
BEGIN
    IF other IS NOT NULL THEN
        PERFORM rota.bad_job(other, 'the code declares it, but the database has it as a job that is not Python',
            'Give one of them another name.');
    END IF;
    INSERT INTO rota.job_applications AS a (job, application, hash)
    SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (job, application) DO UPDATE SET hash = excluded.hash WHERE a.hash <> excluded.hash;
    INSERT INTO rota.jobs (name, application, definition_hash, code, source, executor, payload_schema,
        description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
        is_enabled, events, delay_seconds, expires_in_seconds, key, tenant)
    SELECT w.name, of_application, w.hash, w.code, w.source, w.executor, w.payload_schema,
        r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
        r.default_payload, r.is_enabled, coalesce(r.events, '{}'), r.delay_seconds, r.expires_in_seconds, r.key,
        r.tenant
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.code) r
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (name) DO NOTHING;
    UPDATE rota.jobs j SET
        application = of_application, definition_hash = w.hash, code = w.code, source = w.source, executor = w.executor,
        payload_schema = w.payload_schema, deleted_from_code_at = NULL,
        edited = CASE WHEN w.name = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(j), j.edited, w.code) END,
        (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
            is_enabled, events, delay_seconds, expires_in_seconds, key, tenant) = (
        SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
            r.default_payload, r.is_enabled, r.events, r.delay_seconds, r.expires_in_seconds, r.key, r.tenant
        FROM jsonb_populate_record(j, w.code - CASE WHEN w.name = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(j.edited) END) r)
    FROM rota.read_definitions(definitions) w
    WHERE j.name = w.name AND w.name = ANY (changed) AND (
        w.name = ANY (forced) OR ((j.definition_hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL)
                                  AND rota.may_follow(j, of_application)));
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced);
END $$;

-- Trigger: a job with a key has no schedules: see check_run_defaults. One that code declares for a job that a person
-- has given a key is left out, with a warning.
CREATE FUNCTION rota.refuse_keyed_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found text := (SELECT j.key FROM rota.jobs j WHERE j.name = NEW.job);
BEGIN
    IF found IS NOT NULL AND rota.is_syncing() THEN
        RAISE WARNING 'schedule "%" is left out: job "%" has the key "%"', NEW.name, NEW.job, found;
        RETURN NULL;
    ELSIF found IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": job "%" has the key "%", so that it cannot have a schedule', NEW.name, NEW.job,
            found USING ERRCODE = 'RO002',
            HINT = 'The overlap of a schedule says what happens while its last run has not ended: declare a job without a key for it.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_keyed_job BEFORE INSERT OR UPDATE OF job ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.refuse_keyed_job();

-- Runs what an init schedule owes to this start; whoever writes the marker first enqueues. once: again until it
-- succeeded. One that somebody holds is answered without a run: it is still owed. Runs under limits wait for their
-- admission.
-- Called by: sql/schedules/run_inits.sql.
-- Locks: rows that nobody else has locked.
CREATE OR REPLACE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload,
            m.marker, coalesce(nullif(s.tenant, ''), j.tenant, '') AS run_tenant,
            coalesce(s.run_tags, nullif(j.tags, '{}')) AS tags_of_run,
            coalesce(j.metadata || s.run_metadata, nullif(j.metadata, '{}')) AS metadata_of_run,
            clock + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            make_interval(secs => j.expires_in_seconds) AS expires_in
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL)
          AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
          AND coalesce(s.run_count < s.max_runs, true) AND (capped = '{}' OR NOT rota.has_full_queue(s.id))
    ), free AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s WHERE s.id IN (SELECT d.id FROM due d) FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued',
            enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock, version = s.version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at,
            decided_at, decided_by, enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock,
            for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id,
            limit_keys, limit_key, held_by, is_capped, expires_at)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), d.at, CASE WHEN d.at > clock THEN 'scheduled'
            ELSE 'queued' END, coalesce(d.queue, d.job_queue), d.job,
            d.run_tenant, coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority),
            coalesce(d.max_attempts, d.job_attempts), d.timeout_seconds, d.tags_of_run, d.metadata_of_run,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for),
            d.name, clock, d.id, k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL AND d.at <= clock THEN 'limit' END,
            coalesce(d.queue, d.job_queue) = ANY (capped), d.at + d.expires_in
        FROM taken t JOIN due d ON d.id = t.schedule_id
        CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT s.has_limits FROM rota.settings s)
            THEN rota.limit_keys_of(d.job, coalesce(d.queue, d.job_queue), d.run_tenant, d.name,
            coalesce(d.payload, d.default_payload, '{}')) END AS keys) k
        ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e
    UNION ALL
    SELECT d.name, NULL FROM due d WHERE d.id NOT IN (SELECT f.id FROM free f)
       AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = d.id AND i.marker = d.marker
           AND i.state NOT IN ('failed', 'cancelled'));
    PERFORM rota.wake_admission();
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id
        WHERE i.enqueued_at = clock));
END $$;

-- Says in words what emit has found wrong.
-- Called by: emit, emit_many.
CREATE OR REPLACE FUNCTION rota.refuse_event(event text, payload jsonb, tenant text, key text, metadata jsonb,
    key_seconds double precision, period_seconds double precision, most_bytes bigint) RETURNS void
        LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    PERFORM rota.check_event(refuse_event.event);
    IF strpos(event, '*') > 0 THEN
        RAISE EXCEPTION 'event "%" has a *, which stands for any characters in what jobs are bound to', event
            USING ERRCODE = 'RO002', HINT = 'Emit the name itself, such as order.paid.';
    ELSIF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', event,
            coalesce(jsonb_typeof(payload), 'NULL')
            USING ERRCODE = 'RO018', HINT = 'Write for example {"order_id": 7}.';
    ELSIF pg_column_size(payload) > most_bytes THEN
        RAISE EXCEPTION 'the payload of event "%" has % bytes; at most % are allowed', event, pg_column_size(payload),
            most_bytes
            USING ERRCODE = 'RO018', HINT = 'Store it elsewhere, and send where.';
    ELSIF tenant IS NULL OR length(tenant) > 200 THEN
        RAISE EXCEPTION 'the tenant of event "%" has at most 200 characters', event USING ERRCODE = 'RO002';
    ELSIF key = '' OR length(key) > 400 THEN
        RAISE EXCEPTION 'the key of event "%" needs 1 to 400 characters', event USING ERRCODE = 'RO002';
    ELSIF key IS NULL AND num_nonnulls(key_seconds, period_seconds) > 0 THEN
        RAISE EXCEPTION '% of event "%" says what becomes of a key, but there is no key',
            CASE WHEN key_seconds IS NULL THEN 'period_seconds' ELSE 'key_seconds' END, event USING ERRCODE = 'RO002';
    ELSIF num_nonnulls(key_seconds, period_seconds) > 1 THEN
        RAISE EXCEPTION 'key_seconds and period_seconds of event "%" exclude each other', event USING ERRCODE = 'RO002',
            HINT = 'period_seconds counts from the event, key_seconds from the end of each run.';
    ELSIF (key_seconds BETWEEN 0 AND 'infinity') IS FALSE OR key_seconds = 'NaN'
        OR (key_seconds > 3153600000 AND key_seconds < 'infinity') THEN
        RAISE EXCEPTION 'key_seconds % of event "%" is not between 0 and 3153600000, or infinity', key_seconds, event
            USING ERRCODE = 'RO002';
    ELSIF period_seconds NOT BETWEEN 0.001 AND 3153600000 OR period_seconds = 'NaN' THEN
        RAISE EXCEPTION 'period_seconds % of event "%" is not between 0.001 and 3153600000', period_seconds, event
            USING ERRCODE = 'RO002';
    ELSIF jsonb_typeof(metadata) <> 'object' THEN
        RAISE EXCEPTION 'the metadata of event "%" must be a JSON object, not %', event, jsonb_typeof(metadata)
            USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'the hook of event "%" has at most 200 characters, and its source is a JSON object', event
        USING ERRCODE = 'RO002';
END $$;

-- What the runs of an event get as their payload: one without any leaves it to each job's default payload.
-- Called by: deliver, deliver_bursts, emit_many, replay_events.
CREATE FUNCTION rota.event_payload(payload jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(nullif(payload, '{}'), 'null')
$$;

-- Many events of one name in one statement: where nobody listens they are one insert, and else one batch of runs for
-- each job. Answers how many.
-- Called by: users, watch_rows.
CREATE OR REPLACE FUNCTION rota.emit_many(event text, payloads jsonb[], tenants text[] DEFAULT NULL, source jsonb DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made   record;
    bound  record;
    fit    record;
    ids    bigint[];
    runs   bigint[];
    twins  boolean[];
    got    jsonb[];
    places bigint[] := '{}';        -- of what each job got, with the place of the event
    told   jsonb[] := '{}';
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock, s.payload_bytes,
        nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        (SELECT w.n FROM unnest(payloads, tenants) WITH ORDINALITY AS w (payload, tenant, n)
         WHERE jsonb_typeof(w.payload) IS DISTINCT FROM 'object' OR pg_column_size(w.payload) > s.payload_bytes
           OR length(w.tenant) > 200
         ORDER BY w.n LIMIT 1) AS wrong
    INTO made FROM rota.settings s;
    IF (length(emit_many.event) BETWEEN 1 AND 200 AND emit_many.event !~ '[\s*]' AND made.wrong IS NULL) IS NOT TRUE
        THEN
        PERFORM rota.refuse_event(emit_many.event, payloads[coalesce(made.wrong, 1)], coalesce(tenants[made.wrong], ''),
            NULL, NULL, NULL, NULL, made.payload_bytes);
    END IF;
    IF NOT rota.has_event_room(made.clock) THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    ids := ARRAY(SELECT nextval('rota.event_ids') FROM generate_series(1, cardinality(payloads)));
    FOR bound IN SELECT b.job, b.is_enabled, b.rule, b.queue FROM rota.bound_jobs(emit_many.event, '{}') b LOOP
        SELECT coalesce(array_agg(w.payload ORDER BY w.n) FILTER (WHERE w.fits), '{}') AS payloads,
               array_agg(coalesce(w.tenant, '') ORDER BY w.n) FILTER (WHERE w.fits) AS tenants,
               array_agg(w.id ORDER BY w.n) FILTER (WHERE w.fits) AS ids, array_agg(w.n ORDER BY w.n)
               FILTER (WHERE w.fits) AS places, coalesce(array_agg(w.n ORDER BY w.n) FILTER (WHERE NOT w.fits),
                   '{}') AS others
        INTO fit
        FROM (SELECT u.*, EXISTS (
                  SELECT FROM rota.event_bindings b
                  WHERE b.job = bound.job AND (b.pattern = emit_many.event
                      OR (b.is_pattern AND emit_many.event LIKE b.like_pattern))
                    AND (b.has_values IS NULL OR u.payload @> b.has_values)
                    AND (b.test IS NULL OR coalesce(u.payload @@ b.test, false))) AS fits
              FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS u (payload, tenant, id, n)) w;
        places := places || fit.others;
        told := told || ARRAY(SELECT jsonb_build_object('job', bound.job, 'skipped', 'filter') FROM unnest(fit.others));
        CONTINUE WHEN fit.payloads = '{}';
        IF bound.rule IS NOT NULL THEN
            got := ARRAY(SELECT b.told FROM rota.deliver_bursts(bound.job, bound.rule, bound.queue,
                array_fill(emit_many.event, ARRAY[cardinality(fit.ids)]), '{}', fit.payloads, fit.tenants, '{}',
                ARRAY(SELECT rota.event_trigger(emit_many.event, i, made.actor, made.role, emit_many.source)
                      FROM unnest(fit.ids) WITH ORDINALITY AS u (i, n) ORDER BY u.n)) b ORDER BY b.place);
        ELSE
            SELECT array_agg(r.run_id ORDER BY r.n), array_agg(r.is_duplicate ORDER BY r.n) INTO runs, twins
            FROM rota.enqueue_many(jobs => ARRAY[bound.job],
                payloads => ARRAY(SELECT rota.event_payload(p.payload)
                    FROM unnest(fit.payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n),
                tenants => fit.tenants, triggered_by => rota.event_trigger(emit_many.event, NULL, made.actor, made.role,
                    emit_many.source)) WITH ORDINALITY AS r (run_id, is_duplicate, n);
            PERFORM rota.name_events(array_agg(r.run_id), array_agg(r.id))
            FROM unnest(runs, fit.ids, twins) AS r (run_id, id, is_twin) WHERE NOT r.is_twin HAVING count(*) > 0;
            got := ARRAY(SELECT jsonb_build_object('job', bound.job, 'run', r.run_id) || CASE WHEN r.is_twin
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END
                FROM unnest(runs, twins) WITH ORDINALITY AS r (run_id, is_twin, n) ORDER BY r.n);
        END IF;
        places := places || fit.places;
        told := told || CASE WHEN bound.is_enabled THEN got
            ELSE ARRAY(SELECT g.one || '{"is_disabled": true}' FROM unnest(got) WITH ORDINALITY AS g (one, n)
                ORDER BY g.n) END;
    END LOOP;
    INSERT INTO rota.events (tenant, name, id, at, payload, actor, role, source, deliveries)
    SELECT coalesce(w.tenant, ''), emit_many.event, w.id, made.clock, w.payload, made.actor, made.role,
        emit_many.source, d.deliveries
    FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS w (payload, tenant, id, n)
    LEFT JOIN (SELECT t.place, jsonb_agg(t.told ORDER BY t.i) AS deliveries
        FROM unnest(places, told) WITH ORDINALITY AS t (place, told, i) GROUP BY t.place) d
        ON d.place = w.n
    ORDER BY w.n;
    RETURN cardinality(payloads);
END $$;

-- Starts what is bound to an event that has its number, and answers the deliveries.
-- Called by: emit.
CREATE OR REPLACE FUNCTION rota.deliver(event text, event_id bigint, payload jsonb, tenant text, key text,
    key_seconds double precision, metadata jsonb, triggered_by jsonb, event_key text) RETURNS jsonb
        LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    one  record;
    run  record;
    made jsonb[] := '{}';
    told jsonb;
BEGIN
    FOR one IN SELECT * FROM rota.bound_jobs(deliver.event, deliver.payload) LOOP
        IF NOT one.fits THEN
            made := made || jsonb_build_object('job', one.job, 'skipped', 'filter');
            CONTINUE;
        ELSIF one.rule IS NOT NULL THEN
            told := (SELECT b.told FROM rota.deliver_bursts(one.job, one.rule, one.queue, ARRAY[deliver.event],
                ARRAY[deliver.event_key], ARRAY[deliver.payload], ARRAY[deliver.tenant], ARRAY[deliver.metadata],
                ARRAY[deliver.triggered_by]) b);
        ELSE
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => one.job, payload => rota.event_payload(deliver.payload), key => deliver.key,
                key_seconds => deliver.key_seconds, tenant => deliver.tenant, metadata => deliver.metadata,
                triggered_by => deliver.triggered_by) r;
            IF NOT run.is_duplicate THEN
                PERFORM nextval('rota.event_starts');
            END IF;
            told := jsonb_build_object('job', one.job, 'run', run.run_id) || CASE WHEN run.is_duplicate
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END;
        END IF;
        made := made || (told || CASE WHEN one.is_enabled THEN jsonb '{}' ELSE '{"is_disabled": true}' END);
    END LOOP;
    RETURN nullif(to_jsonb(made), '[]');
END $$;

-- Delivers events to a job whose rule bundles them; the one way for emits, tables and replays. Of each burst one event
-- is enqueued, however many there are: a load of ten thousand rows is not ten thousand versions of one run. Keys are
-- taken in their order, so that two loads wait for each other and do not deadlock. Answers what each event got, by its
-- place.
-- Called by: deliver, emit_many, replay_bursts.
CREATE OR REPLACE FUNCTION rota.deliver_bursts(
    job text, rule jsonb, queue text, events text[], keys text[], payloads jsonb[], tenants text[], metadatas jsonb[],
    causes jsonb[]
) RETURNS TABLE (place bigint, told jsonb) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    is_debounced constant boolean := deliver_bursts.rule ? 'debounce_seconds';
    burst  record;
    run    record;
    shared jsonb;
BEGIN
    FOR burst IN
        WITH given AS MATERIALIZED (
            SELECT u.n, u.payload, coalesce(u.tenant, '') AS tenant, u.metadata, u.cause,
                rota.event_burst(deliver_bursts.rule, u.event, u.key, u.payload, deliver_bursts.job,
                    deliver_bursts.queue, coalesce(u.tenant, '')) AS key
            FROM unnest(deliver_bursts.events, deliver_bursts.keys, deliver_bursts.payloads, deliver_bursts.tenants,
                deliver_bursts.metadatas, deliver_bursts.causes) WITH ORDINALITY AS u (event, key, payload, tenant,
                metadata, cause, n)
        ), bursts AS (
            SELECT g.tenant, g.key, array_agg(g.n ORDER BY g.n) AS places, CASE WHEN is_debounced THEN max(g.n)
                ELSE min(g.n) END AS chosen
            FROM given g GROUP BY g.tenant, g.key
        )
        SELECT b.tenant, b.key, b.places, b.chosen, g.payload, g.metadata, g.cause FROM bursts b
        JOIN given g ON g.n = b.chosen ORDER BY b.tenant, b.key
    LOOP
        SELECT r.run_id, r.is_duplicate INTO run
        FROM rota.enqueue_run(job => deliver_bursts.job, payload => rota.event_payload(burst.payload), key => burst.key,
            on_conflict => CASE WHEN is_debounced THEN 'debounce' ELSE 'throttle' END,
            delay => make_interval(secs => (deliver_bursts.rule ->> 'debounce_seconds')::double precision),
            key_seconds => coalesce(deliver_bursts.rule ->> 'longest_seconds',
                deliver_bursts.rule ->> 'throttle_seconds')::double precision,
            tenant => burst.tenant, metadata => burst.metadata,
            triggered_by => burst.cause || CASE WHEN is_debounced
                THEN jsonb_build_object('debounced', cardinality(burst.places)) ELSE '{}' END) r;
        IF NOT run.is_duplicate THEN
            PERFORM nextval('rota.event_starts');
        ELSIF is_debounced THEN
            -- It has the payload of the last event now, and says which that was.
            UPDATE rota.open_runs o SET triggered_by = burst.cause || jsonb_build_object('debounced',
                cardinality(burst.places)
                + CASE jsonb_typeof(o.triggered_by -> 'debounced') WHEN 'number'
                    THEN (o.triggered_by ->> 'debounced')::numeric ELSE 0 END)
            WHERE o.id = run.run_id;
        END IF;
        PERFORM count(nextval('rota.duplicates')) FROM generate_series(2, cardinality(burst.places));
        shared := CASE WHEN is_debounced THEN '{"debounced": true, "is_duplicate": true}'
            ELSE jsonb_build_object('is_duplicate', true, 'throttled_until', (SELECT k.expires_at FROM rota.keys k
                WHERE k.tenant = burst.tenant AND k.job = deliver_bursts.job AND k.key = burst.key)) END;
        RETURN QUERY
        SELECT p, jsonb_build_object('job', deliver_bursts.job, 'run', run.run_id) || CASE
            WHEN p <> burst.chosen OR run.is_duplicate THEN shared
            WHEN is_debounced THEN shared - 'is_duplicate' ELSE '{}' END
        FROM unnest(burst.places) p;
    END LOOP;
END $$;

-- Delivers events that are kept to a job as if it had been bound to them. None goes to the same job twice, unless
-- `again` says so. Where the job is bound to the event, its filters hold. Those that another transaction holds are
-- left out and counted.
-- Called by: sql/events/replay.sql, users.
-- Locks: rows that nobody else has locked.
CREATE OR REPLACE FUNCTION rota.replay_events(
    job text, event text DEFAULT NULL, ids bigint[] DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, tenant text DEFAULT NULL, again boolean DEFAULT false,
    dry_run boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    OUT events bigint, OUT started bigint, OUT delivered_before bigint, OUT filtered bigint, OUT held bigint,
    OUT joined bigint
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    most  constant integer := 10000;
    who   constant text := coalesce(replay_events.actor, nullif(current_setting('rota' || '.actor', true), ''),
        session_user);
    def   record;
    found bigint[];
    ready bigint[] := '{}';
    one   record;
    fits  boolean;
    run   record;
BEGIN
    started := 0; joined := 0; delivered_before := 0; filtered := 0; held := 0;
    SELECT j.name, j.queue, j.event_delivery AS rule INTO def FROM rota.jobs j WHERE j.name = replay_events.job;
    IF def.name IS NULL THEN
        PERFORM rota.unknown_job(replay_events.job);
    ELSIF num_nonnulls(replay_events.event, replay_events.ids) <> 1 THEN
        RAISE EXCEPTION 'say which events: either by name or by id' USING ERRCODE = 'RO002';
    END IF;
    found := ARRAY(
        SELECT e.id FROM rota.events e
        WHERE (replay_events.ids IS NULL OR e.id = ANY (replay_events.ids))
          AND (replay_events.event IS NULL OR e.name = replay_events.event
               OR (strpos(replay_events.event, '*') > 0 AND e.name LIKE rota.like_event(replay_events.event)))
          AND (replay_events.since IS NULL OR e.at >= replay_events.since)
          AND (replay_events.until IS NULL OR e.at < replay_events.until)
          AND (replay_events.tenant IS NULL OR e.tenant = replay_events.tenant) AND e.duplicate_of IS NULL
        ORDER BY e.id LIMIT most + 1);
    events := cardinality(found);
    IF events > most THEN
        RAISE EXCEPTION 'more than % events match', most
            USING ERRCODE = 'RO002', HINT = 'Replay them in parts: narrow since and until.';
    END IF;
    held := events;
    FOR one IN EXECUTE 'SELECT e.* FROM rota.events e WHERE e.id = ANY ($1) ORDER BY e.id' || CASE
        WHEN replay_events.dry_run THEN '' ELSE ' FOR UPDATE SKIP LOCKED' END
        USING found
    LOOP
        held := held - 1;
        fits := (SELECT bool_or((b.has_values IS NULL OR one.payload @> b.has_values)
            AND (b.test IS NULL OR coalesce(one.payload @@ b.test, false)))
                 FROM rota.event_bindings b
                 WHERE b.job = replay_events.job AND (b.pattern = one.name
                     OR (b.is_pattern AND one.name LIKE b.like_pattern)));
        IF NOT replay_events.again AND jsonb_path_exists(coalesce(one.deliveries, '[]'),
                '$[*] ? (@.job == $job && exists(@.run))', jsonb_build_object('job', replay_events.job)) THEN
            delivered_before := delivered_before + 1;
        ELSIF NOT fits THEN
            filtered := filtered + 1;
        ELSIF def.rule IS NOT NULL THEN
            ready := array_append(ready, one.id);
        ELSE
            started := started + 1;
            CONTINUE WHEN replay_events.dry_run;
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => replay_events.job, payload => rota.event_payload(one.payload),
                tenant => one.tenant, metadata => one.metadata,
                triggered_by => rota.event_trigger(one.name, one.id, one.actor, one.role,
                one.source) || jsonb_build_object('replayed_by', who)) r;
            IF run.is_duplicate THEN
                started := started - 1;
                joined := joined + 1;
            ELSE
                PERFORM nextval('rota.event_starts');
            END IF;
            UPDATE rota.events e
            SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
                || jsonb_build_object('job', replay_events.job, 'run', run.run_id, 'replayed_by', who, 'replayed_at',
                    rota.now())
            WHERE e.tenant = one.tenant AND e.name = one.name AND e.id = one.id AND e.at = one.at;
        END IF;
    END LOOP;
    IF ready <> '{}' THEN
        started := rota.replay_bursts(def.name, def.rule, def.queue, ready, who, replay_events.dry_run);
        joined := cardinality(ready) - started;
    END IF;
    IF NOT replay_events.dry_run THEN
        PERFORM rota.write_audit(replay_events.actor, 'event.replayed', 'job', replay_events.job, NULL,
            jsonb_strip_nulls(jsonb_build_object(
            'event', replay_events.event, 'ids', to_jsonb(replay_events.ids[1:100]), 'since', replay_events.since,
            'until', replay_events.until, 'again', nullif(replay_events.again, false), 'started', started, 'joined',
            nullif(joined, 0), 'delivered_before', delivered_before, 'filtered', filtered, 'held', held)),
            replay_events.reason, coalesce(replay_events.tenant, ''));
    END IF;
END $$;

SELECT rota.guard_values('rota.jobs', true);
