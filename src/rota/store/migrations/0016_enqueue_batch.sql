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
