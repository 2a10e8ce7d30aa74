-- Rules of cleanup are checked when a schedule is written, can be counted, and take more conditions. bad_rule takes a
-- hint, so it is made anew.
DROP FUNCTION rota.bad_rule(integer, text);

-- Refuses a rule of cleanup (RO002). Tables and columns of rules are looked up in the catalogue, conditions come
-- from a fixed grammar: a rule is data and cannot say anything else.
-- Called by: check_rule, rule_age, rule_column, rule_condition, rule_filter, rule_table.
CREATE OR REPLACE FUNCTION rota.bad_rule(rule integer, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- The table that a rule of cleanup is about: an ordinary or a partitioned one, and none of Rota's.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE OR REPLACE FUNCTION rota.rule_table(rule integer, said jsonb) RETURNS regclass LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    relation regclass := rota.table_of(said ->> 'table');
BEGIN
    IF relation IS NULL THEN
        PERFORM rota.bad_rule(rule, format('there is no table "%s"', said ->> 'table'),
            'Name it with its schema, quoted as in SQL: public.sessions.');
    ELSIF EXISTS (SELECT FROM pg_class c, pg_class own WHERE c.oid = relation AND own.oid = 'rota.jobs'::regclass
                  AND (c.relkind NOT IN ('r', 'p')
                       OR c.relnamespace IN (own.relnamespace, 'pg_catalog'::regnamespace))) THEN
        PERFORM rota.bad_rule(rule, format('%s is not a table of yours', relation),
            'Rows can be removed from tables and partitioned tables, and not from Rota''s own.');
    END IF;
    RETURN relation;
END $$;

-- The column that a rule of cleanup names; refuses one that the table has not.
-- Called by: rule_condition, rule_filter.
CREATE OR REPLACE FUNCTION rota.rule_column(rule integer, relation regclass, name text) RETURNS pg_attribute
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute;
BEGIN
    SELECT a.* INTO found FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = rule_column.name AND a.attnum > 0 AND NOT a.attisdropped;
    IF found.attname IS NULL THEN
        PERFORM rota.bad_rule(rule, format('table %s has no column "%s"', relation, rule_column.name),
            (SELECT format('It has %s.', string_agg(a.attname, ', ' ORDER BY a.attnum)) FROM pg_attribute a
             WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped));
    END IF;
    RETURN found;
END $$;

-- A condition of a rule, {"column", "op", "value"}, as SQL. A value is tried as the column's type, so that a rule that
-- cannot work is refused when it is written.
-- Called by: rule_filter.
CREATE OR REPLACE FUNCTION rota.rule_condition(rule integer, relation regclass, condition jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute := rota.rule_column(rule, relation, condition ->> 'column');
    kind  text := format_type(found.atttypid, found.atttypmod);
    op    text := lower(condition ->> 'op');
    value text;
BEGIN
    IF op IN ('is null', 'is not null') AND NOT condition ? 'value' THEN
        RETURN format('%I %s', found.attname, upper(op));
    ELSIF op IN ('=', '<>', '<', '<=', '>', '>=')
        AND jsonb_typeof(condition -> 'value') IN ('string', 'number', 'boolean') THEN
        value := format('%L::%s', condition ->> 'value', kind);
    ELSIF op = 'in' AND jsonb_typeof(condition -> 'value') = 'array' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(condition -> 'value') v
        WHERE jsonb_typeof(v) NOT IN ('string', 'number', 'boolean')) THEN
        op := '=';
        value := format('ANY (%L::%s[])', ARRAY(SELECT jsonb_array_elements_text(condition -> 'value')), kind);
    ELSE
        PERFORM rota.bad_rule(rule, format('condition %s cannot be read', condition),
            'op is one of =, <>, <, <=, >, >= with a value, in with a list of values, or is null, is not null without one.');
    END IF;
    BEGIN
        EXECUTE format('SELECT NULL::%s %s %s', kind, op, value);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_rule(rule, format('condition %s does not fit column "%s", which is %s', condition,
            found.attname, kind), SQLERRM);
    END;
    RETURN format('%I %s %s', found.attname, op, value);
END $$;

-- The rows of the table that one rule is about, as SQL.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE OR REPLACE FUNCTION rota.rule_filter(rule integer, relation regclass, said jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    cutoff timestamptz := rota.now() - rota.rule_age(rule, said -> 'older_than');
    found  pg_attribute := rota.rule_column(rule, relation, said ->> 'column');
    wheres jsonb := coalesce(said -> 'where', '[]');
    parts  text[];
BEGIN
    -- A time without a zone is taken as UTC, whatever the zone of the session is.
    parts := ARRAY[format('%I < %L::%s', found.attname, CASE WHEN found.atttypid = 'timestamptz'::regtype
        THEN cutoff::text ELSE (cutoff AT TIME ZONE 'UTC')::text END,
                          format_type(found.atttypid, NULL))];
    IF found.atttypid NOT IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) THEN
        PERFORM rota.bad_rule(rule, format('column "%s" of %s is %s, not a time', found.attname, relation,
            format_type(found.atttypid, NULL)));
    END IF;
    IF jsonb_typeof(wheres) = 'object' THEN
        wheres := jsonb_build_array(wheres);
    ELSIF jsonb_typeof(wheres) <> 'array' THEN
        PERFORM rota.bad_rule(rule, format('where must be a condition or a list of them, not %s', wheres));
    END IF;
    RETURN array_to_string(parts || ARRAY(SELECT rota.rule_condition(rule, relation, w)
        FROM jsonb_array_elements(wheres) w), ' AND ');
END $$;

-- Refuses a rule that cannot be applied, without applying it.
-- Called by: apply_rule, check_cleanup, plan_cleanup.
CREATE OR REPLACE FUNCTION rota.check_rule(rule integer, said jsonb) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one     text;
BEGIN
    IF jsonb_typeof(said) IS DISTINCT FROM 'object' THEN
        PERFORM rota.bad_rule(rule, format('it must be an object with table, column and older_than, not %s', said));
    END IF;
    FOREACH one IN ARRAY '{batch_size,max_batches}'::text[] LOOP
        IF said ? one AND (said ->> one ~ '^[1-9][0-9]{0,8}$') IS NOT TRUE THEN
            PERFORM rota.bad_rule(rule, format('%s must be a whole number, at least 1, not %s', one, said -> one));
        END IF;
    END LOOP;
    PERFORM rota.rule_filter(rule, rota.rule_table(rule, said), said);
END $$;

-- Applies one rule, {"table", "column", "older_than", "where", "batch_size", "max_batches"}: answers how many rows
-- it removed, and whether it stopped at its limit.
-- Called by: cleanup.
-- Locks: rows that nobody else has locked.
CREATE OR REPLACE FUNCTION rota.apply_rule(rule integer, said jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    relation regclass;
    size     integer;
    batches  integer;
    filter   text;
    leaf     regclass;
    gone     integer;
    removed  bigint := 0;
BEGIN
    PERFORM rota.check_rule(rule, said);
    relation := rota.rule_table(rule, said);
    size := coalesce((said ->> 'batch_size')::integer, 1000);
    batches := coalesce((said ->> 'max_batches')::integer, 100);
    filter := rota.rule_filter(rule, relation, said);
    -- Leaf by leaf, because a place in a table is unique in that table only.
    FOR leaf IN SELECT relation WHERE NOT EXISTS (SELECT FROM pg_partition_tree(relation) t WHERE NOT t.isleaf)
                UNION SELECT t.relid FROM pg_partition_tree(relation) t WHERE t.isleaf LOOP
        LOOP
            EXIT WHEN batches = 0;
            EXECUTE format(
                'DELETE FROM ONLY %1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY %1$s WHERE %2$s LIMIT %3$s FOR UPDATE SKIP LOCKED))',
                           leaf, filter, size);
            GET DIAGNOSTICS gone = ROW_COUNT;
            removed := removed + gone;
            batches := batches - 1;
            EXIT WHEN gone < size;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('table', relation::text, 'removed', removed, 'has_more', batches = 0);
END $$;

-- How many rows each rule of a payload would remove now. Changes nothing.
-- Called by: sql/cleanup/plan.sql, users.
CREATE OR REPLACE FUNCTION rota.plan_cleanup(payload jsonb) RETURNS TABLE (rule integer, table_name text, matching bigint)
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one record;
    relation regclass;
BEGIN
    FOR one IN SELECT r.n, r.said FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (said, n) LOOP
        PERFORM rota.check_rule(one.n::integer, one.said);
        relation := rota.rule_table(one.n::integer, one.said);
        rule := one.n;
        table_name := relation::text;
        EXECUTE format('SELECT count(*) FROM %s WHERE %s', relation, rota.rule_filter(rule, relation, one.said))
        INTO matching;
        RETURN NEXT;
    END LOOP;
END $$;

-- Trigger: a schedule of the cleanup has rules that can be applied, when it is written and not when it first runs.
CREATE OR REPLACE FUNCTION rota.check_cleanup() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload) THEN
        RETURN NEW;
    ELSIF jsonb_typeof(NEW.payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'schedule "%": cleanup takes {"rules": [{"table", "column", "older_than", …}]}, not %', NEW.name,
            left(NEW.payload::text, 200) USING ERRCODE = 'RO002', HINT = 'rota cleanup add writes the rules for you.';
    END IF;
    PERFORM rota.check_rule(r.n::integer, r.said)
    FROM jsonb_array_elements(NEW.payload -> 'rules') WITH ORDINALITY AS r (said, n);
    RETURN NEW;
END $$;
CREATE TRIGGER b_cleanup BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    WHEN (NEW.job = 'rota' || '.cleanup' AND NEW.payload IS NOT NULL) EXECUTE FUNCTION rota.check_cleanup();
