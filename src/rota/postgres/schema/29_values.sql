-- What plain INSERT and UPDATE may write. `guard_values` makes a constraint for each column by its kind and, where
-- people write, triggers that say in words what a constraint can only refuse. A migration that adds a column or a
-- constraint to one of these tables calls it again. It stands here because its rules look at tables of all other files.

-- Whether an instant is one that every reader can hold: in the years 1 to 9999 with a day off at both ends, so that
-- it is so in every time zone.
-- Called by: check_next_run, check_options, ensure_ledger, model/instants.py, reschedule, set_clock.
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

-- A row in words: its kind, and its name if it has one.
-- Called by: refuse_row, refuse_values.
CREATE FUNCTION rota.row_words(relation text, name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(rtrim(relation, 's'), '_', ' ') || coalesce(format(' "%s"', name), '')
$$;

-- Trigger: names the column of a row that breaks a rule.
CREATE FUNCTION rota.refuse_values() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := rota.row_words(TG_TABLE_NAME, to_jsonb(NEW) ->> 'name');
    one   record;
    is_ok boolean;
    found text;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(TG_RELID) LOOP
        EXECUTE format('SELECT %s, left(($1).%I::text, 40)', format(one.rule, format('($1).%I', one.name)), one.name)
        INTO is_ok, found USING NEW;
        IF NOT is_ok THEN
            RAISE EXCEPTION '% of % cannot be %', one.name, who, found
                USING ERRCODE = 'RO002', COLUMN = one.name, HINT = CASE one.kind
                    WHEN 'timestamptz'::regtype
                        THEN 'A time must be in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC); omit it for none.'
                    WHEN 'jsonb'::regtype
                        THEN 'JSON is nested at most 100 levels deep; its largest number is 1.7976931348623157e308.'
                    WHEN 'text[]'::regtype THEN 'A list must contain strings only.'
                    ELSE 'A number must be finite; seconds are at most 3153600000 (100 years).' END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- What a row breaks, in words: the sentence and what to do about it. Some constraints have both in their comment, where
-- {column} stands for its value; the usual shapes of the others speak for themselves.
-- Called by: refuse_row.
CREATE FUNCTION rota.constraint_words(rule oid, given jsonb) RETURNS text[] LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    said    text := obj_description(rule, 'pg_constraint');
    expr    text;
    short   text;
    part    text[];
BEGIN
    SELECT pg_get_expr(c.conbin, c.conrelid), c.conname INTO expr, short FROM pg_constraint c WHERE c.oid = rule;
    IF said IS NOT NULL THEN
        RETURN string_to_array(rota.fill_words(said, given), E'\n');
    END IF;
    part := regexp_match(expr, '^\((\w+) = ANY \(ARRAY\[(.*)\]\)\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be one of %s, not %s', part[1], (SELECT string_agg(m[1], ', ')
            FROM regexp_matches(part[2], '''([^'']*)''::text', 'g') m), given -> part[1])];
    END IF;
    part := regexp_match(expr, '^\(jsonb_typeof\((\w+)\) = ''(\w+)''::text\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be a JSON %s, not %s', part[1], part[2], left((given -> part[1])::text, 40))];
    END IF;
    part := regexp_match(expr, '^\(\((\w+) >= \W*([\d.]+)\W.* AND \(\w+ <= \W*([\d.]+)\W');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be from %s to %s, not %s', part[1], part[2], part[3], given ->> part[1])];
    END IF;
    part := regexp_match(expr, '^\((\w+) (>=|>) \(?([\d.]+)\)?(?:::double precision)?\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be %s %s, not %s', part[1],
            CASE part[2] WHEN '>' THEN 'more than' ELSE 'at least' END, part[3], given ->> part[1])];
    END IF;
    part := regexp_match(expr, '^\(+(\w+) <> ''''::text\)(?: AND \(length\(\w+\) <= (\d+)\)\))?$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must have %s characters, not %s', part[1], coalesce('1 to ' || part[2], 'some'),
            length(given ->> part[1]))];
    END IF;
    part := regexp_match(expr, '^\(length\((\w+)\) <= (\d+)\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must have at most %s characters, not %s', part[1], part[2], length(given ->> part[1]))];
    END IF;
    RETURN ARRAY[format('it violates the constraint %s: %s', short, expr)];
END $$;

-- The columns of a table that cannot be left empty, with their defaults as text.
-- Called by: guard_values, refuse_row.
CREATE FUNCTION rota.needed_columns(relation regclass) RETURNS TABLE (name text, default_text text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND a.attgenerated = ''
    ORDER BY a.attnum
$$;

-- The constraints of a table that its rows are told about in words, each as text about the columns of NEW. Those that
-- value_rules made have a trigger of their own.
-- Called by: guard_values, refuse_row.
CREATE FUNCTION rota.row_rules(relation regclass) RETURNS TABLE (id oid, name text, expr text, about_new text)
LANGUAGE plpgsql STABLE SET jit = off SET quote_all_identifiers = off AS $$
DECLARE
    one text;
BEGIN
    FOR id, name, expr IN
        SELECT c.oid, c.conname, pg_get_expr(c.conbin, c.conrelid) FROM pg_constraint c
        WHERE c.conrelid = relation AND c.contype = 'c' AND c.conname NOT LIKE '%\_value' ORDER BY c.conname
    LOOP
        about_new := expr;
        FOR one IN SELECT a.attname FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid
            AND a.attnum = ANY (c.conkey) WHERE c.oid = id LOOP
            -- A name between quotes is a value.
            about_new := regexp_replace(about_new, format('(?<![''.])\m%s\M(?![''(])', one), 'NEW.' || one, 'g');
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;

-- Trigger: says in words which column of a row is missing, or which constraint the row would break. The constraint
-- itself would name only itself, and print the whole row.
CREATE FUNCTION rota.refuse_row() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := rota.row_words(TG_TABLE_NAME, to_jsonb(NEW) ->> 'name');
    one   record;
    is_ok boolean;
    words text[];
BEGIN
    FOR one IN SELECT * FROM rota.needed_columns(TG_RELID) LOOP
        EXECUTE format('SELECT ($1).%I IS NOT NULL', one.name) INTO is_ok USING NEW;
        IF NOT is_ok THEN
            RAISE EXCEPTION '%: % is missing', who, one.name USING ERRCODE = 'RO002', COLUMN = one.name,
                HINT = coalesce(CASE WHEN one.default_text IS NOT NULL THEN 'Leave it out to use its default.' END,
                    format('Pass a value for %s.', one.name));
        END IF;
    END LOOP;
    FOR one IN SELECT * FROM rota.row_rules(TG_RELID) LOOP
        EXECUTE format('SELECT %s FROM (SELECT ($1).*) r', one.expr) INTO is_ok USING NEW;
        IF NOT is_ok THEN
            words := rota.constraint_words(one.id, to_jsonb(NEW));
            RAISE EXCEPTION '%: %', who, words[1] USING ERRCODE = 'RO002', CONSTRAINT = one.name,
                HINT = coalesce(words[2], 'Correct the value, or leave it out to use its default.');
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- The name of a time zone as the zone data spells it; NULL: there is none. Unlike AT TIME ZONE, the setting takes no
-- abbreviations, and it tells the spelling; it is put back when the function ends.
-- Called by: check_zone.
CREATE FUNCTION rota.zone_spelling(zone text) RETURNS text LANGUAGE plpgsql VOLATILE SET timezone = 'UTC'
SET jit = off AS $$
BEGIN
    PERFORM set_config('timezone', zone, true);
    RETURN current_setting('timezone');
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$;

-- Whether a text looks like the name of a time zone. Postgres reads "EST+3" and any word with a digit as a zone of its
-- own; the few real names of that shape are listed. Some names mean another zone on each machine, or none.
-- Called by: check_zone.
CREATE FUNCTION rota.is_zone_name(zone text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT zone ~ '^[A-Za-z_]+(/[A-Za-z0-9_+-]+)*$' AND zone !~ '^((posix|right)/.*|Factory|localtime|posixrules)$'
        OR zone IN ('CST6CDT', 'EST5EDT', 'MST7MDT', 'PST8PDT', 'GMT+0', 'GMT-0', 'GMT0', 'GB-Eire', 'NZ-CHAT', 'W-SU')
$$;

-- Refuses a time zone that Python does not know, as the schedule would be parked at its first tick: also the
-- abbreviation of a zone (PST) and a zone in other letters (america/new_york), which Postgres knows.
-- Called by: before_calendar, before_schedule.
CREATE FUNCTION rota.check_zone(noun text, name text, zone text) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    spelling text;
BEGIN
    IF zone = 'UTC' THEN
        RETURN;
    END IF;
    spelling := CASE WHEN rota.is_zone_name(zone) THEN rota.zone_spelling(zone) END;
    IF spelling IS DISTINCT FROM zone THEN
        RAISE EXCEPTION '% "%": unknown time zone "%"', noun, name, zone
            USING ERRCODE = 'RO002', HINT = CASE WHEN spelling IS NOT NULL THEN format('Did you mean %s?', spelling)
                WHEN zone ~ '^[A-Za-z]{2,5}$' THEN 'Use an IANA name such as Europe/Paris, not an abbreviation.'
                ELSE 'Use an IANA name such as Europe/Paris.' END;
    END IF;
END $$;

-- Makes the rules of a table's columns: a constraint for each, and, where people write (is_told), triggers that say
-- in words what is missing (first) and what a constraint would refuse (last, as other triggers may say it better).
-- Called again after a column or a constraint was added.
CREATE FUNCTION rota.guard_values(relation regclass, is_told boolean) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    short text := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
    one   record;
    rules text;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(relation) LOOP
        EXECUTE format('ALTER TABLE %1$s DROP CONSTRAINT IF EXISTS %2$I, ADD CONSTRAINT %2$I CHECK (%3$s)', relation,
            short || '_' || one.name || '_value', format(one.rule, format('%I', one.name)));
    END LOOP;
    IF is_told THEN
        EXECUTE format('DROP TRIGGER IF EXISTS a_values ON %s', relation);
        -- Its name comes first: the other triggers calculate with these values.
        rules := (SELECT string_agg(format(r.rule, format('NEW.%I', r.name)), ' AND ')
            FROM rota.value_rules(relation) r);
        IF rules IS NOT NULL THEN
            EXECUTE format(
                'CREATE TRIGGER a_values BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) '
                'EXECUTE FUNCTION rota.refuse_values()', relation, rules);
        END IF;
        EXECUTE format('DROP TRIGGER IF EXISTS a_missing ON %s', relation);
        EXECUTE format(
            'CREATE TRIGGER a_missing BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s) '
            'EXECUTE FUNCTION rota.refuse_row()', relation,
            (SELECT string_agg(format('NEW.%I IS NULL', n.name), ' OR ') FROM rota.needed_columns(relation) n));
        EXECUTE format('DROP TRIGGER IF EXISTS z_rules ON %s', relation);
        EXECUTE format(
            'CREATE TRIGGER z_rules BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) '
            'EXECUTE FUNCTION rota.refuse_row()',
            relation, (SELECT string_agg(format('%s', r.about_new), ' AND ') FROM rota.row_rules(relation) r));
    END IF;
END $$;
COMMENT ON CONSTRAINT bulk_actions_delay ON rota.bulk_actions IS
    E'delay_seconds must be from 0 to 3153600000 (100 years), and only retry has one\nOmit delay_seconds.';
COMMENT ON CONSTRAINT bulk_actions_filter ON rota.bulk_actions IS
    E'the filter must be a JSON object with at least one condition besides system\nName a job, a state or a tenant.';
COMMENT ON CONSTRAINT bulk_actions_payload ON rota.bulk_actions IS
    E'the payload must be a JSON object, and only retry has one\nOmit the payload.';
COMMENT ON CONSTRAINT jobs_function ON rota.jobs IS
    E'only a job of kind sql has a function_name\nSet kind ''sql'' too, or omit function_name.';
COMMENT ON CONSTRAINT jobs_kind_check ON rota.jobs IS
    E'kind must be python or sql, not {kind}\nThere are no flows yet.';
COMMENT ON CONSTRAINT jobs_run_as ON rota.jobs IS
    E'run_as and transaction_mode ''none'' cannot be combined\n'
    'A function that runs as another role cannot commit: omit one of the two.';
COMMENT ON CONSTRAINT jobs_sql_only ON rota.jobs IS
    E'only a job of kind sql has a run_as or another transaction_mode than ''whole''\n'
    'Set kind ''sql'' and a function_name, or omit both.';
COMMENT ON CONSTRAINT queues_check ON rota.queues IS
    E'is_paused and paused_at must be set together\nCall pause_queue() or resume_queue().';
COMMENT ON CONSTRAINT schedules_bounds ON rota.schedules IS
    E'end_at {end_at} is not after start_at {start_at}\nPass a later end_at, or none.';
COMMENT ON CONSTRAINT schedules_every_from ON rota.schedules IS
    E'every_from ''end'' requires interval_seconds\nOnly an interval can count from the end of the previous run.';
COMMENT ON CONSTRAINT schedules_pause ON rota.schedules IS
    E'paused_until and pause_reason require paused_at\nCall pause_schedule() or resume_schedule().';
COMMENT ON CONSTRAINT schedules_timing ON rota.schedules IS
    E'it needs exactly one of cron, interval_seconds, run_at and init\n'
    'Set one of them, and none of the other three.';
COMMENT ON CONSTRAINT tenants_name ON rota.tenants IS
    E'a name must have 1 to 200 characters, no control character, no slash, and no space at either end\n'
    'Use an ID or a short name, such as acme or customer-17.';
COMMENT ON CONSTRAINT tenants_pause ON rota.tenants IS
    E'paused_at, paused_by, pause_reason and paused_until require is_paused\nCall pause_tenant() or resume_tenant().';
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
SELECT rota.guard_values('rota.schedule_templates', true);
SELECT rota.guard_values('rota.bulk_actions', true);
SELECT rota.guard_values('rota.run_views', true);
