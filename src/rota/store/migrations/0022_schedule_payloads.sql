-- A payload that the job would not take is refused where a schedule is written, and where it is triggered.

-- Whether a JSON value may be of a type of a JSON schema. Says yes wherever the handler's types might take it: a number
-- may come as text, an instant as a number, and what is behind a reference is not looked at.
-- Called by: payload_problem.
CREATE FUNCTION rota.fits_type(schema jsonb, given jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    kind text := jsonb_typeof(given);
    said text := given #>> '{}';
BEGIN
    IF jsonb_typeof(schema -> 'anyOf') = 'array' THEN
        RETURN EXISTS (SELECT FROM jsonb_array_elements(schema -> 'anyOf') a WHERE rota.fits_type(a, given));
    END IF;
    RETURN CASE schema ->> 'type'
        WHEN 'string' THEN kind = 'string' OR (kind = 'number' AND schema ? 'format')
        WHEN 'integer' THEN kind = 'boolean' OR (kind = 'number' AND said::numeric % 1 = 0)
            OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'number' THEN kind IN ('boolean', 'number') OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'boolean' THEN kind = 'boolean' OR (kind IN ('number', 'string') AND
            said ~* '^(0|1|0\.0|1\.0|t|f|y|n|true|false|yes|no|on|off)$')
        WHEN 'array' THEN kind = 'array'
        WHEN 'object' THEN kind = 'object'
        WHEN 'null' THEN kind = 'null'
        ELSE true END;
END $$;

-- What keeps a payload from being that of a job, in words, by the top level of the job's JSON schema: arguments that
-- are missing, unknown or of another type. NULL: nothing that can be seen here; a job whose arguments are not known
-- (a SQL function) takes all.
-- Called by: check_schedule_payload, sql/schedules/payload_problems.sql, trigger_schedule.
CREATE FUNCTION rota.payload_problem(schema jsonb, payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    known constant jsonb := CASE WHEN jsonb_typeof(schema -> 'properties') = 'object' THEN schema -> 'properties'
        ELSE '{}' END;
    names constant text := coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(known) k), 'none');
    given record;
BEGIN
    FOR given IN SELECT r.name FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(schema -> 'required') = 'array'
        THEN schema -> 'required' ELSE '[]' END) r (name) LOOP
        IF NOT payload ? given.name THEN
            RETURN format('argument %s is missing', given.name);
        END IF;
    END LOOP;
    FOR given IN SELECT e.key, e.value FROM jsonb_each(payload) e LOOP
        IF known ? given.key AND NOT rota.fits_type(known -> given.key, given.value) THEN
            RETURN format('argument %s cannot be %s', given.key, left(given.value::text, 60));
        ELSIF NOT known ? given.key AND schema -> 'additionalProperties' = 'false' THEN
            RETURN format('there is no argument %s; it takes %s', given.key, names);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Trigger: refuses a payload that the schedule's job would not take, where it is written. What code declares is checked
-- by the process that declares it, which knows the types: a build that is older than what the job says now must start.
CREATE FUNCTION rota.check_schedule_payload() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    problem text;
BEGIN
    IF rota.is_syncing() OR (TG_OP = 'INSERT' AND NEW.code IS NOT NULL)
        OR (TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload)) THEN
        RETURN NEW;
    END IF;
    SELECT rota.payload_problem(j.payload_schema, coalesce(NEW.payload, j.default_payload, '{}')) INTO problem
    FROM rota.jobs j WHERE j.name = NEW.job;
    IF problem IS NOT NULL THEN
        PERFORM rota.bad_schedule(NEW.name, format('its payload does not fit job "%s": %s', NEW.job, problem),
            'rota.jobs.payload_schema says what the job takes; without a payload the job''s default_payload is used.');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_payload BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.check_schedule_payload();

-- Runs a schedule now, whatever its state; the cursor stays where it is. The run belongs to its schedule: lists,
-- status, requirements, overlap and limits count it. It takes no nominal time. RO002: the job would not take the
-- payload.
-- Called by: sql/schedules/trigger.sql, users.
CREATE OR REPLACE FUNCTION rota.trigger_schedule(
    name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL, metadata jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := coalesce(trigger_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    its   rota.jobs := (SELECT j FROM rota.jobs j WHERE j.name = found.job);
    given jsonb := coalesce(trigger_schedule.payload, found.payload, its.default_payload, '{}');
    wrong text := CASE WHEN jsonb_typeof(given) = 'object' THEN rota.payload_problem(its.payload_schema, given) END;
    made  bigint;
BEGIN
    IF wrong IS NOT NULL THEN
        PERFORM rota.bad_schedule(found.name, format('the payload does not fit job "%s": %s', found.job, wrong),
            'rota.jobs.payload_schema says what the job takes.');
    END IF;
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job, payload => given, queue => found.queue, priority => found.priority::integer,
            tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
        metadata => coalesce(trigger_schedule.metadata || found.run_metadata, trigger_schedule.metadata,
        found.run_metadata), triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule',
        found.name)) r;
    UPDATE rota.open_runs o SET schedule = found.name, schedule_id = found.id WHERE o.id = made;
    PERFORM rota.limit_run(made);
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL,
        jsonb_build_object('run_id', made), NULL, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule',
        found.name);
END $$;
