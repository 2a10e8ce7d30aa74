-- What one enqueue and one claim cost by themselves, without the runs beside them that share the cost in a batch: the server
-- reads the constraints of a table anew with each statement, about 4 microseconds for each thousand characters of their
-- trees, and PL/pgSQL makes its expressions ready anew in each transaction.

-- The values that users choose, in few words. What only Rota writes into an open run (created_at, enqueued_at, started_at,
-- held_at) comes from the clock; whoever reads can live with an odd one.
DO $$
DECLARE
    one name;
BEGIN
    FOR one IN SELECT c.conname FROM pg_constraint c WHERE c.conrelid = 'rota.open_runs'::regclass AND c.conname LIKE '%\_value' LOOP
        EXECUTE format('ALTER TABLE rota.open_runs DROP CONSTRAINT %I', one);
    END LOOP;
END $$;
CREATE OR REPLACE FUNCTION rota.value_rules(relation regclass) RETURNS TABLE (name text, kind regtype, rule text) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, a.atttypid::regtype, rota.value_rule(a.attname::text, a.atttypid::regtype)
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      AND rota.value_rule(a.attname::text, a.atttypid::regtype) IS NOT NULL
      -- Open runs have rules of their own, written for speed.
      AND relation <> 'rota.open_runs'::regclass
    ORDER BY a.attnum
$$;
ALTER TABLE rota.open_runs
    DROP CONSTRAINT open_runs_progress, DROP CONSTRAINT open_runs_timeout,
    ADD CONSTRAINT open_runs_progress CHECK (progress BETWEEN real '0' AND real '1'),
    ADD CONSTRAINT open_runs_timeout CHECK (timeout_seconds > real '0' AND timeout_seconds <= real '3153600000'),
    ADD CONSTRAINT open_runs_key_seconds CHECK (key_seconds BETWEEN float8 '0' AND float8 'infinity'),
    ADD CONSTRAINT open_runs_instants CHECK (least(run_at, expires_at, scheduled_for) >= timestamptz '0001-01-02 00:00Z'
        AND greatest(run_at, expires_at, scheduled_for) < timestamptz '9999-12-31 00:00Z');

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
    -- Most enqueues have no options, and a small payload or one that was looked at. Each expression costs about a
    -- microsecond in each transaction, so that they are asked for in one.
    IF num_nonnulls(enqueue_run.queue, enqueue_run.priority, enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at,
            enqueue_run.key_seconds, enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.backoff, enqueue_run.tags,
            enqueue_run.metadata) > 0
       OR (enqueue_run.on_conflict = 'return' AND length(enqueue_run.tenant) <= 200 AND jsonb_typeof(enqueue_run.payload) = 'object'
           AND pg_column_size(enqueue_run.payload) <= def.payload_bytes
           AND (enqueue_run.validated_by IS NOT NULL OR octet_length(enqueue_run.payload::text) <= 200)) IS NOT TRUE
    THEN
        PERFORM rota.check_options(enqueue_run.job, enqueue_run.payload, def.payload_bytes, enqueue_run.priority,
            enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.queue, enqueue_run.metadata, enqueue_run.backoff,
            enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at, enqueue_run.key_seconds, enqueue_run.tags, enqueue_run.tenant,
            enqueue_run.validated_by IS NOT NULL);
        IF enqueue_run.run_at IS NOT NULL AND enqueue_run.delay IS NOT NULL THEN
            RAISE EXCEPTION 'run_at and delay exclude each other' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace') THEN
            RAISE EXCEPTION 'on_conflict is "%"; it is one of return, raise, replace', enqueue_run.on_conflict USING ERRCODE = 'RO002';
        END IF;
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
