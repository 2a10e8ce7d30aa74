-- What plain INSERT and UPDATE may write, by the kinds of columns: a constraint for each, and, where people write, a
-- trigger that says in words what a constraint can only refuse. A migration that adds a column to one of these tables calls
-- guard_values again.

-- The rule of one column, as text about %1$s; NULL: anything goes. next_run_at is infinite while a schedule waits for the end
-- of its run, and a key may be kept for ever. What only Rota writes as JSON is not looked at again.
CREATE FUNCTION rota.value_rule(name text, kind regtype) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN kind = 'timestamptz'::regtype THEN $rule$(%1$s >= '0001-01-02 00:00Z'::timestamptz AND %1$s < '9999-12-31 00:00Z'::timestamptz$rule$
            || CASE WHEN name = 'next_run_at' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind = 'interval'::regtype THEN $rule$(%1$s BETWEEN interval '-2000 years' AND interval '7000 years')$rule$
        WHEN kind IN ('real'::regtype, 'double precision'::regtype) AND name LIKE '%seconds' THEN '(%1$s BETWEEN -3153600000 AND 3153600000'
            || CASE WHEN name = 'key_seconds' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind IN ('real'::regtype, 'double precision'::regtype) THEN $rule$(%1$s > '-infinity' AND %1$s < 'infinity')$rule$
        WHEN kind = 'jsonb'::regtype AND name NOT IN ('code', 'edited', 'segments', 'payload_schema') THEN 'rota.is_plain_json(%1$s)'
        WHEN kind = 'text[]'::regtype THEN 'rota.is_plain_list(%1$s)'
    END
$$;

CREATE FUNCTION rota.value_rules(relation regclass) RETURNS TABLE (name text, kind regtype, rule text) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, a.atttypid::regtype, rota.value_rule(a.attname::text, a.atttypid::regtype)
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      AND rota.value_rule(a.attname::text, a.atttypid::regtype) IS NOT NULL
      -- A look at each payload with each claim would cost more than it brings: whatever enqueues has looked.
      AND NOT (relation = 'rota.open_runs'::regclass AND a.atttypid IN ('jsonb'::regtype, 'text[]'::regtype))
    ORDER BY a.attnum
$$;

-- Names the column, in a row that breaks a rule.
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
                    WHEN 'timestamptz'::regtype THEN 'An instant lies in the years 1 to 9999; leave it out for none.'
                    WHEN 'jsonb'::regtype THEN 'JSON is nested at most 100 levels deep, its numbers go up to 1.7976931348623157e308.'
                    WHEN 'text[]'::regtype THEN 'A list holds texts, and no lists or NULLs.'
                    ELSE 'A number is finite; seconds are at most 3153600000 (100 years).' END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

CREATE FUNCTION rota.guard_values(relation regclass, is_told boolean) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
        EXECUTE format('CREATE TRIGGER a_values BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) EXECUTE FUNCTION rota.refuse_values()',
            relation, (SELECT string_agg(format(r.rule, format('NEW.%I', r.name)), ' AND ') FROM rota.value_rules(relation) r));
    END IF;
END $$;

-- Rows of before are mended, not refused: instants and seconds to the nearest that can be, the rest to what the column has
-- without it. Without the triggers of edits: nobody edited.
CREATE FUNCTION rota.mend_values(relation regclass) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one record;
BEGIN
    EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', relation);
    FOR one IN
        SELECT r.*, CASE WHEN d.adbin IS NOT NULL THEN pg_get_expr(d.adbin, d.adrelid) WHEN NOT a.attnotnull THEN 'NULL' END AS usual
        FROM rota.value_rules(relation) r JOIN pg_attribute a ON a.attrelid = relation AND a.attname = r.name
        LEFT JOIN pg_attrdef d ON d.adrelid = relation AND d.adnum = a.attnum
    LOOP
        EXECUTE format('UPDATE %s SET %I = %s WHERE NOT %s', relation, one.name, CASE
            WHEN one.kind = 'timestamptz'::regtype THEN
                format($mend$CASE WHEN %I < '1000-01-01' THEN '0001-01-02 00:00Z'::timestamptz ELSE '9999-12-30 00:00Z' END$mend$, one.name)
            WHEN one.kind = 'interval'::regtype THEN quote_literal('0')
            WHEN one.name LIKE '%seconds' THEN
                format($mend$CASE WHEN %1$I = 'NaN' THEN %2$s ELSE greatest(1, least(%1$I, 3153600000)) END$mend$, one.name, coalesce(one.usual, '60'))
            WHEN one.kind = 'text[]'::regtype THEN format('ARRAY(SELECT one FROM unnest(%I) one WHERE one IS NOT NULL)', one.name)
            WHEN one.kind = 'jsonb'::regtype THEN coalesce(one.usual, quote_literal('{}'))
            ELSE coalesce(one.usual, '0') END, format(one.rule, format('%I', one.name)));
    END LOOP;
    EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', relation);
END $$;

-- Two of them cut to one and the same instant would break the rule that an end comes after its start.
ALTER TABLE rota.schedules DISABLE TRIGGER USER;
UPDATE rota.schedules SET end_at = NULL WHERE NOT rota.is_instant(end_at) AND end_at > '1000-01-01';
ALTER TABLE rota.schedules ENABLE TRIGGER USER;
SELECT rota.mend_values(t) FROM unnest(ARRAY['rota.settings', 'rota.open_runs', 'rota.workers', 'rota.cancel_requests', 'rota.backfills', 'rota.backfill_times', 'rota.jobs', 'rota.queues', 'rota.calendars', 'rota.schedules']::regclass[]) t;
DROP FUNCTION rota.mend_values(regclass);
SELECT rota.guard_values(t, false) FROM unnest(ARRAY['rota.settings', 'rota.open_runs', 'rota.workers', 'rota.cancel_requests', 'rota.backfills', 'rota.backfill_times']::regclass[]) t;
SELECT rota.guard_values(t, true) FROM unnest(ARRAY['rota.jobs', 'rota.queues', 'rota.calendars', 'rota.schedules']::regclass[]) t;
