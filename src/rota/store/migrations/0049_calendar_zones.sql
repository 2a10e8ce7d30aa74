-- A calendar with a zone that there is not made the schedules that follow it stand still, and look well: refused, as a schedule's
-- own is. What is wrong with the rest of a definition, the tick says.
CREATE FUNCTION rota.check_calendar() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    zone text := NEW.definition ->> 'timezone';
BEGIN
    IF jsonb_typeof(NEW.definition -> 'timezone') IS DISTINCT FROM 'string' THEN
        RETURN NEW;
    END IF;
    BEGIN
        PERFORM now() AT TIME ZONE zone;
    EXCEPTION WHEN invalid_parameter_value THEN
        zone := '';
    END;
    -- Postgres reads "EST+3" and any word with a digit as a zone of its own; names alone are IANA's.
    IF zone !~ '^[A-Za-z_]+(/[A-Za-z0-9_+-]+)*$' THEN
        RAISE EXCEPTION 'calendar "%": unknown time zone "%"', NEW.name, NEW.definition ->> 'timezone'
            USING ERRCODE = 'RO002', HINT = 'Use an IANA name such as Europe/Paris.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calendars_check BEFORE INSERT OR UPDATE OF definition ON rota.calendars FOR EACH ROW EXECUTE FUNCTION rota.check_calendar();
