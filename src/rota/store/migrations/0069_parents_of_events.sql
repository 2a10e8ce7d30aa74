-- As before (0036). What an event starts remembers the run that emitted it, as what a run enqueues does.
DROP FUNCTION rota.emit(text, jsonb, text, text, jsonb, double precision);
CREATE FUNCTION rota.emit(
    event text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', key text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, parent_run_id bigint DEFAULT NULL
) RETURNS TABLE (job text, run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM rota.check_event(emit.event);
    IF emit.payload IS NULL OR jsonb_typeof(emit.payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', emit.event, coalesce(jsonb_typeof(emit.payload), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example {"order_id": 7}.';
    ELSIF emit.key_seconds IS NOT NULL AND emit.key IS NULL THEN
        RAISE EXCEPTION 'key_seconds of event "%" says what becomes of a key, but there is no key', emit.event USING ERRCODE = 'RO002';
    END IF;
    RETURN QUERY
    SELECT b.name, r.run_id, r.is_duplicate
    FROM (SELECT j.name FROM rota.jobs j
          WHERE j.events @> ARRAY[emit.event] AND j.deleted_from_code_at IS NULL
          ORDER BY j.name OFFSET 0) b
    CROSS JOIN LATERAL rota.enqueue_run(job => b.name, payload => emit.payload, key => emit.key, key_seconds => emit.key_seconds,
        tenant => emit.tenant, metadata => emit.metadata, triggered_by => jsonb_strip_nulls(jsonb_build_object('type', 'event', 'event', emit.event,
            'actor', nullif(current_setting('rota' || '.actor', true), ''),
            'run', coalesce(emit.parent_run_id, (rota.sql_trigger() ->> 'run')::bigint)))) r;
END $$;
