-- A run that somebody asked a schedule for carries what they give it, such as the trace it belongs to.
DROP FUNCTION rota.trigger_schedule(text, jsonb, text, text);
CREATE FUNCTION rota.trigger_schedule(name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL, metadata jsonb DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
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
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL, jsonb_build_object('run_id', made), NULL, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule', found.name);
END $$;
