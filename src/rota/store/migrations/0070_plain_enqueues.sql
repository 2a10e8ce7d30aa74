-- One enqueue without options, or with a queue or a priority only: what enqueue_run does for it, in fewer expressions. PL/pgSQL makes
-- each of them ready anew in each transaction. Whatever is odd about it, enqueue_run says so.
CREATE FUNCTION rota.enqueue_plain(
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
