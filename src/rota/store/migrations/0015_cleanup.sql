-- The cleanup of expired rows, as a job of Rota's own. Tables and columns are looked up in the catalogue, conditions come
-- from a fixed grammar: a rule is data and cannot say anything else.
CREATE FUNCTION rota.bad_rule(rule integer, what text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002';
END $$;

CREATE FUNCTION rota.rule_column(rule integer, relation regclass, name text) RETURNS pg_attribute LANGUAGE plpgsql STABLE AS $$
DECLARE
    found pg_attribute;
BEGIN
    SELECT a.* INTO found FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = rule_column.name AND a.attnum > 0 AND NOT a.attisdropped;
    IF found.attname IS NULL THEN
        PERFORM rota.bad_rule(rule, format('table %s has no column "%s"', relation, rule_column.name));
    END IF;
    RETURN found;
END $$;

-- {"column", "op", "value"} as SQL.
CREATE FUNCTION rota.rule_condition(rule integer, relation regclass, condition jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    found pg_attribute := rota.rule_column(rule, relation, condition ->> 'column');
    op    text := lower(condition ->> 'op');
BEGIN
    IF op IN ('is null', 'is not null') AND NOT condition ? 'value' THEN
        RETURN format('%I %s', found.attname, upper(op));
    ELSIF op IN ('=', '<>', '<', '>') AND jsonb_typeof(condition -> 'value') IN ('string', 'number', 'boolean') THEN
        RETURN format('%I %s %L::%s', found.attname, op, condition ->> 'value', format_type(found.atttypid, found.atttypmod));
    END IF;
    PERFORM rota.bad_rule(rule, format('condition %s: op is one of =, <>, <, > with a value, or is null, is not null without', condition));
END $$;

CREATE FUNCTION rota.rule_age(rule integer, older_than jsonb) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    age interval;
BEGIN
    age := CASE jsonb_typeof(older_than) WHEN 'number' THEN make_interval(secs => (older_than #>> '{}')::double precision)
                                         WHEN 'string' THEN (older_than #>> '{}')::interval END;
    IF age IS NULL OR age < '0' THEN
        PERFORM rota.bad_rule(rule, format('older_than must be an interval or a number of seconds, not %s', coalesce(older_than::text, 'missing')));
    END IF;
    RETURN age;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow THEN
    PERFORM rota.bad_rule(rule, format('older_than %s is not an interval', older_than));
END $$;

-- Which rows of the table one rule is about, as SQL.
CREATE FUNCTION rota.rule_filter(rule integer, relation regclass, said jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    cutoff timestamptz := rota.now() - rota.rule_age(rule, said -> 'older_than');
    found  pg_attribute := rota.rule_column(rule, relation, said ->> 'column');
    wheres jsonb := coalesce(said -> 'where', '[]');
    parts  text[];
BEGIN
    -- A time without a zone is taken as UTC, whatever the zone of the session is.
    parts := ARRAY[format('%I < %L::%s', found.attname, CASE WHEN found.atttypid = 'timestamptz'::regtype THEN cutoff::text ELSE (cutoff AT TIME ZONE 'UTC')::text END,
                          format_type(found.atttypid, NULL))];
    IF found.atttypid NOT IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) THEN
        PERFORM rota.bad_rule(rule, format('column "%s" of %s is %s, not a time', found.attname, relation, format_type(found.atttypid, NULL)));
    END IF;
    IF jsonb_typeof(wheres) = 'object' THEN
        wheres := jsonb_build_array(wheres);
    ELSIF jsonb_typeof(wheres) <> 'array' THEN
        PERFORM rota.bad_rule(rule, format('where must be a condition or a list of them, not %s', wheres));
    END IF;
    RETURN array_to_string(parts || ARRAY(SELECT rota.rule_condition(rule, relation, w) FROM jsonb_array_elements(wheres) w), ' AND ');
END $$;

-- {"table", "column", "older_than", "where", "batch_size", "max_batches"}: how many rows it removed, and whether it stopped
-- at its limit.
CREATE FUNCTION rota.apply_rule(rule integer, said jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    relation regclass := to_regclass(said ->> 'table');
    size     integer := coalesce((said ->> 'batch_size')::integer, 1000);
    batches  integer := coalesce((said ->> 'max_batches')::integer, 100);
    filter   text;
    leaf     regclass;
    gone     integer;
    removed  bigint := 0;
BEGIN
    IF relation IS NULL THEN
        PERFORM rota.bad_rule(rule, format('there is no table "%s"', said ->> 'table'));
    ELSIF EXISTS (SELECT FROM pg_class c, pg_class own WHERE c.oid = relation AND own.oid = 'rota.jobs'::regclass
                  AND (c.relkind NOT IN ('r', 'p') OR c.relnamespace = own.relnamespace)) THEN
        PERFORM rota.bad_rule(rule, format('%s is not a table of yours', relation));
    ELSIF size < 1 OR batches < 1 THEN
        PERFORM rota.bad_rule(rule, 'batch_size and max_batches are at least 1');
    END IF;
    filter := rota.rule_filter(rule, relation, said);
    -- Leaf by leaf, because a place in a table is unique in that table only.
    FOR leaf IN SELECT relation WHERE NOT EXISTS (SELECT FROM pg_partition_tree(relation) t WHERE NOT t.isleaf)
                UNION SELECT t.relid FROM pg_partition_tree(relation) t WHERE t.isleaf LOOP
        LOOP
            EXIT WHEN batches = 0;
            EXECUTE format('DELETE FROM ONLY %1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY %1$s WHERE %2$s LIMIT %3$s FOR UPDATE SKIP LOCKED))',
                           leaf, filter, size);
            GET DIAGNOSTICS gone = ROW_COUNT;
            removed := removed + gone;
            batches := batches - 1;
            EXIT WHEN gone < size;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('table', relation::text, 'removed', removed, 'has_more', batches = 0);
END $$;

CREATE FUNCTION rota.cleanup(payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    done  jsonb;
    total bigint;
BEGIN
    IF jsonb_typeof(payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'cleanup takes {"rules": [{"table", "column", "older_than", …}]}, not %', payload USING ERRCODE = 'RO002';
    END IF;
    SELECT coalesce(jsonb_agg(a.applied ORDER BY a.n), '[]'), coalesce(sum((a.applied ->> 'removed')::bigint), 0) INTO done, total
    FROM (SELECT r.n, rota.apply_rule(r.n::integer, r.rule) AS applied
          FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (rule, n) OFFSET 0) a;
    RETURN jsonb_build_object('success', true, 'message', format('%s expired rows removed', total), 'details', jsonb_build_object('rules', done));
END $$;

-- Inserted once and yours to change: put your rules into the payload and enable the schedule.
INSERT INTO rota.jobs (name, kind, function_name, description, default_payload, is_system)
VALUES ('rota' || '.cleanup', 'sql', 'rota.cleanup', 'Removes expired rows from tables, by rules', '{"rules": []}', true);
-- No person did this: the audit stays empty.
ALTER TABLE rota.schedules DISABLE TRIGGER schedules_audit;
INSERT INTO rota.schedules (name, job, description, cron, is_enabled, is_system)
VALUES ('rota' || '.cleanup', 'rota' || '.cleanup', 'Removes expired rows; enable it with rules in its payload', '0 3 * * *', false, true);
ALTER TABLE rota.schedules ENABLE TRIGGER schedules_audit;
