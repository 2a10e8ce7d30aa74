-- As before (0029). No attempt can keep a timeout shorter than a millisecond: it would only ever time out.
CREATE OR REPLACE FUNCTION rota.check_options(
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
