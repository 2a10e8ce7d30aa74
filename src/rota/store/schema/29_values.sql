-- What plain INSERT and UPDATE may write, by the kinds of columns. `guard_values` makes a constraint for each column
-- and, where people write, a trigger that says in words what a constraint can only refuse. A migration that adds a
-- column to one of these tables calls it again. It stands here because its rules look at tables of all other files.

-- Whether an instant is one that every reader can hold: in the years 1 to 9999 with a day off at both ends, so that
-- it is so in every time zone.
-- Called by: check_options, model/instants.py, move_schedule, set_clock.
CREATE FUNCTION rota.is_instant(at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT at >= '0001-01-02 00:00Z'::timestamptz AND at < '9999-12-31 00:00Z'::timestamptz
$$;

-- Whether JSON is at most 100 levels deep, with no number beyond a double. What cannot be more, by its length, its
-- brackets or its digits, is not walked through.
-- Called by: check_options, enqueue_batch, row_payload, value_rule.
CREATE FUNCTION rota.is_plain_json(doc jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(doc::text) <= 200 THEN true
        ELSE NOT (length(doc::text) - length(translate(doc::text, '[{', '')) > 100
            AND jsonb_path_exists(doc, '$.**{101}'))
            AND NOT (doc::text ~ '[0-9]{155}[0-9]{154}' AND jsonb_path_exists(doc,
            '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')) END
$$;

-- Whether an array is one list of texts, none of them missing.
-- Called by: check_options, value_rule.
CREATE FUNCTION rota.is_plain_list(list text[]) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN array_ndims(list) > 1 THEN false ELSE array_position(list, NULL) IS NULL END
$$;

-- The rule of one column, as text about %1$s; NULL: anything goes. next_run_at is infinite while a schedule waits
-- for the end of its run, and a key may be kept for ever. What only Rota writes as JSON is not looked at again.
-- Called by: value_rules.
CREATE FUNCTION rota.value_rule(name text, kind regtype) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN kind = 'timestamptz'::regtype
            THEN $rule$(%1$s >= '0001-01-02 00:00Z'::timestamptz AND %1$s < '9999-12-31 00:00Z'::timestamptz$rule$
            || CASE WHEN name = 'next_run_at' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind = 'interval'::regtype THEN $rule$(%1$s BETWEEN interval '-2000 years' AND interval '7000 years')$rule$
        WHEN kind IN ('real'::regtype, 'double precision'::regtype) AND name LIKE '%seconds'
            THEN '(%1$s BETWEEN -3153600000 AND 3153600000'
            || CASE WHEN name = 'key_seconds' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind IN ('real'::regtype, 'double precision'::regtype)
            THEN $rule$(%1$s > '-infinity' AND %1$s < 'infinity')$rule$
        WHEN kind = 'jsonb'::regtype AND name NOT IN ('code', 'edited', 'segments', 'payload_schema')
            THEN 'rota.is_plain_json(%1$s)'
        WHEN kind = 'text[]'::regtype THEN 'rota.is_plain_list(%1$s)'
    END
$$;

-- The columns of a table that have a rule, and their rules.
-- Called by: guard_values, refuse_values.
CREATE FUNCTION rota.value_rules(relation regclass) RETURNS TABLE (name text, kind regtype, rule text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, a.atttypid::regtype, rota.value_rule(a.attname::text, a.atttypid::regtype)
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      AND rota.value_rule(a.attname::text, a.atttypid::regtype) IS NOT NULL
      -- Open runs have rules of their own, written for speed.
      AND relation <> 'rota.open_runs'::regclass
    ORDER BY a.attnum
$$;

-- Trigger: names the column of a row that breaks a rule.
CREATE FUNCTION rota.refuse_values() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one   record;
    is_ok boolean;
    found text;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(TG_RELID) LOOP
        EXECUTE format('SELECT %s, left(($1).%I::text, 40)', format(one.rule, format('($1).%I', one.name)), one.name)
        INTO is_ok, found USING NEW;
        IF NOT is_ok THEN
            RAISE EXCEPTION '% of % "%" cannot be %', one.name, rtrim(TG_TABLE_NAME, 's'), NEW.name, found
                USING ERRCODE = 'RO002', COLUMN = one.name, HINT = CASE one.kind
                    WHEN 'timestamptz'::regtype
                        THEN 'An instant lies in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC); leave it out for none.'
                    WHEN 'jsonb'::regtype
                        THEN 'JSON is nested at most 100 levels deep, its numbers go up to 1.7976931348623157e308.'
                    WHEN 'text[]'::regtype THEN 'A list holds texts, and no lists or NULLs.'
                    ELSE 'A number is finite; seconds are at most 3153600000 (100 years).' END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- Makes the rules of a table's columns: a constraint for each, and, where people write (is_told), a trigger that
-- names the column. Called again after a column was added.
CREATE FUNCTION rota.guard_values(relation regclass, is_told boolean) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    short text := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
    one   record;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(relation) LOOP
        EXECUTE format('ALTER TABLE %1$s DROP CONSTRAINT IF EXISTS %2$I, ADD CONSTRAINT %2$I CHECK (%3$s)', relation,
            short || '_' || one.name || '_value', format(one.rule, format('%I', one.name)));
    END LOOP;
    IF is_told THEN
        EXECUTE format('DROP TRIGGER IF EXISTS a_values ON %s', relation);
        -- Its name comes first: the other triggers calculate with these values.
        EXECUTE format(
            'CREATE TRIGGER a_values BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) EXECUTE FUNCTION rota.refuse_values()',
            relation, (SELECT string_agg(format(r.rule, format('NEW.%I', r.name)), ' AND ')
                FROM rota.value_rules(relation) r));
    END IF;
END $$;
SELECT rota.guard_values('rota.settings', false);
SELECT rota.guard_values('rota.jobs', true);
SELECT rota.guard_values('rota.queues', true);
SELECT rota.guard_values('rota.workers', false);
SELECT rota.guard_values('rota.cancel_requests', false);
SELECT rota.guard_values('rota.calendars', true);
SELECT rota.guard_values('rota.schedules', true);
SELECT rota.guard_values('rota.backfills', false);
SELECT rota.guard_values('rota.backfill_times', false);
SELECT rota.guard_values('rota.tenants', true);
