-- The least timeout that jobs and runs have (0067), for schedules too. One from before this rule may be edited otherwise.
CREATE FUNCTION rota.check_schedule_timeout() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds THEN
        PERFORM rota.bad_schedule(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)', NEW.timeout_seconds));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_least_timeout BEFORE INSERT OR UPDATE OF timeout_seconds ON rota.schedules
FOR EACH ROW WHEN (NEW.timeout_seconds < real '0.001') EXECUTE FUNCTION rota.check_schedule_timeout();
