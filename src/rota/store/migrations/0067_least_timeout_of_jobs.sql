-- As before (0017), with the least timeout that runs have.
CREATE OR REPLACE FUNCTION rota.check_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    part record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NULL;  -- the constraints do
    ELSIF NEW.name <> OLD.name THEN
        PERFORM rota.bad_job(OLD.name, 'a job cannot be renamed', 'Declare it under its new name; the old one is marked deleted.');
    ELSIF NEW.priority NOT BETWEEN 0 AND 9 THEN
        PERFORM rota.bad_job(NEW.name, format('priority %s is not between 0 (first) and 9 (last)', NEW.priority));
    ELSIF NEW.max_attempts NOT BETWEEN 1 AND 100 THEN
        PERFORM rota.bad_job(NEW.name, format('max_attempts %s is not between 1 and 100', NEW.max_attempts));
    ELSIF jsonb_typeof(NEW.backoff) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, 'backoff is not a JSON object');
    END IF;
    -- One from before this rule may be edited otherwise.
    IF NEW.timeout_seconds < real '0.001' AND (TG_OP = 'INSERT' OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds) THEN
        PERFORM rota.bad_job(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)', NEW.timeout_seconds));
    END IF;
    IF coalesce(NEW.backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        PERFORM rota.bad_job(NEW.name, format('backoff kind "%s" is none of exponential, linear, fixed', NEW.backoff ->> 'kind'));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(CASE WHEN jsonb_typeof(NEW.backoff) = 'object' THEN NEW.backoff - 'kind' END) LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds') OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            PERFORM rota.bad_job(NEW.name, format('backoff says "%s": %s', part.key, part.value),
                'It has kind, base_seconds, factor (from 1), cap_seconds, jitter_seconds (from 0).');
        END IF;
    END LOOP;
    PERFORM rota.check_event(e) FROM unnest(NEW.events) e;
    NEW.updated_at := CASE WHEN TG_OP = 'UPDATE' THEN rota.now() ELSE NEW.updated_at END;
    RETURN NEW;
END $$;
