-- Events from users' tables. `watch_table` installs triggers that emit an event for each row that is written, in the
-- writer's transaction, and `unwatch_table` takes them away; `table_watches` lists them, `watches` says whether they
-- still work. These functions run in other people's transactions: they name everything by its schema.

-- Numbers of watches.
CREATE SEQUENCE rota.watch_ids;

-- Watches of tables: what was installed, to be compared with what is there. Which table that is now, the triggers say
-- (watched_table): the server's number of a table changes when a dump of the database is restored.
CREATE TABLE rota.table_watches (
    tenant        text COLLATE "C" NOT NULL DEFAULT '',  -- of its events, unless a column says
    id            bigint NOT NULL,
    table_name    text NOT NULL,                         -- as it was called, with its schema
    event         text NOT NULL,                         -- its events are called so, with the operation after a dot
    operations    text[] NOT NULL,
    update_of     text[],
    columns       text[],
    condition     text,
    tenant_column text,
    triggers      jsonb NOT NULL,                        -- by name: as the server wrote them down
    created_at    timestamptz NOT NULL DEFAULT rota.now(),
    created_by    text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX table_watches_id ON rota.table_watches (id);

-- The table that a text names, or an error that says how to write it.
-- Called by: watch_table.
CREATE FUNCTION rota.find_table(table_name text) RETURNS oid LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found oid := rota.table_of(table_name);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no table %', coalesce(table_name, 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write schema.table; put names with capitals or spaces in double quotes.';
    END IF;
    RETURN found;
END $$;

-- The table that a text names; NULL for a text that names none, or is no name. Rota's sessions have no search_path:
-- a name alone is one of public.
-- Called by: find_table, rule_table, sql/cleanup/table.sql, unwatch_table.
CREATE FUNCTION rota.table_of(table_name text) RETURNS oid LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    RETURN coalesce(to_regclass(table_name), to_regclass('public.' || table_name));
EXCEPTION WHEN invalid_name OR syntax_error OR feature_not_supported THEN
    RETURN NULL;
END $$;

-- The table of a watch: the one that has its triggers, under whatever name, else the one that is called like it; NULL
-- where there is neither. A partition's copy of a trigger does not count.
-- Called by: unwatch_table, watch_table, watches.
CREATE FUNCTION rota.watched_table(watch rota.table_watches) RETURNS oid LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce(
        (SELECT t.tgrelid FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid
         JOIN pg_class own ON own.oid = 'rota.jobs'::regclass AND own.relnamespace = f.pronamespace
         WHERE watch.triggers ? t.tgname::text AND t.tgparentid = 0 AND f.proname IN ('watch_row', 'watch_rows')
         ORDER BY t.tgrelid = to_regclass(watch.table_name)::oid DESC NULLS LAST, t.tgrelid LIMIT 1),
        (SELECT c.oid FROM pg_class c WHERE c.oid = to_regclass(watch.table_name) AND c.relkind IN ('r', 'p')))
$$;

-- Whether all columns of a table are of built-in types, so that to_jsonb calls nothing that somebody else has
-- defined.
-- Called by: watch_row.
CREATE FUNCTION rota.is_plain_row(relation oid) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                       WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384)
$$;

-- The one of some columns that the table does not have.
-- Called by: watch_table, watches.
CREATE FUNCTION rota.missing_column(of_relation oid, names text[]) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT min(n) FROM unnest(names) n WHERE NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = of_relation AND a.attname = n AND a.attnum > 0
            AND NOT a.attisdropped)
$$;

-- Whether a text is one expression, that nothing can follow: CREATE TRIGGER checks what it means.
-- Called by: watch_table.
CREATE FUNCTION rota.check_condition(condition text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    depth integer := 0;
    quote text;
    one   text;
    next  text;
    place integer := 0;
BEGIN
    IF length(condition) > 10000 OR strpos(condition, chr(92)) > 0 THEN
        RAISE EXCEPTION 'a condition must have at most 10000 characters and no backslash' USING ERRCODE = 'RO002';
    END IF;
    WHILE place < length(condition) LOOP
        place := place + 1;
        one := substr(condition, place, 1);
        next := substr(condition, place + 1, 1);
        IF quote IS NOT NULL THEN
            quote := CASE WHEN one = quote THEN NULL ELSE quote END;        -- a doubled one opens again at once
        ELSIF one IN ('''', '"') THEN
            quote := one;
        ELSIF one = '(' THEN
            depth := depth + 1;
        ELSIF one = ')' THEN
            depth := depth - 1;
            EXIT WHEN depth < 0;
        ELSIF one IN (';', '$') OR one || next IN ('--', '/*') THEN
            RAISE EXCEPTION 'a condition must not contain %', CASE WHEN one IN (';', '$') THEN one ELSE one || next END
                USING ERRCODE = 'RO002', HINT = 'Write one expression: new.total > 100 AND new.status = ''paid''.';
        END IF;
    END LOOP;
    IF depth <> 0 OR quote IS NOT NULL OR btrim(condition) = '' THEN
        RAISE EXCEPTION 'the condition is not a complete expression: %', condition
            USING ERRCODE = 'RO002', HINT = 'Write one expression: new.total > 100 AND new.status = ''paid''.';
    END IF;
END $$;

-- A row as JSON, for functions that run as their owner. Whoever owns a type may say by a cast how it becomes JSON or
-- text, and that function would run with our rights: so only types that the server came with go that way, others by
-- their output function.
-- Called by: watch_row, watch_rows.
CREATE FUNCTION rota.row_expression(relation oid, alias text, columns text[]) RETURNS text LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT coalesce(string_agg(part.text, ' || '), '''{}''::jsonb') FROM (
        SELECT 'jsonb_build_object(' || string_agg(format('%L, %s', a.attname,
            CASE WHEN a.atttypid < 16384 THEN format('to_jsonb(%s.%I)', alias, a.attname)
            ELSE format('CASE WHEN num_nulls(%1$s.%2$I) = 0 THEN to_jsonb(format(''%%s'', %1$s.%2$I)) END', alias,
                a.attname) END), ', ' ORDER BY a.attnum) || ')' AS text
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
          AND (columns IS NULL OR a.attname = ANY (columns))
        GROUP BY a.attnum / 40 ORDER BY a.attnum / 40) part
$$;

-- The payload that tells of a written row. One that runs cannot have must not fail the write: then it has the
-- columns of the primary key only.
-- Called by: watch_row, watch_rows.
CREATE FUNCTION rota.row_payload(relation oid, told text, operation text, old_row jsonb, new_row jsonb,
    most_bytes bigint)
RETURNS jsonb LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    made jsonb := jsonb_build_object('table', told, 'operation', operation, 'old', old_row, 'new', new_row);
    keys text[];
BEGIN
    IF pg_column_size(made) <= most_bytes AND (octet_length(made::text) <= 200 OR rota.is_plain_json(made)) THEN
        RETURN made;
    END IF;
    keys := ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
        AND a.attnum = ANY (i.indkey::smallint[])
                  WHERE i.indrelid = relation AND i.indisprimary);
    made := jsonb_build_object('table', told, 'operation', operation,
        'old', (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(old_row) o WHERE o.key = ANY (keys)),
        'new', (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(new_row) n WHERE n.key = ANY (keys)));
    IF pg_column_size(made) <= most_bytes AND (octet_length(made::text) <= 200 OR rota.is_plain_json(made)) THEN
        RETURN made;
    END IF;
    RETURN jsonb_build_object('table', told, 'operation', operation, 'old', NULL, 'new', NULL);
END $$;

-- Gives the runs of a batch the numbers of their events, each its own: a batch of runs has one triggered_by.
-- Called by: emit_many.
CREATE FUNCTION rota.name_events(runs bigint[], event_ids bigint[]) RETURNS void LANGUAGE sql VOLATILE
SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    UPDATE rota.open_runs o SET triggered_by = o.triggered_by || jsonb_build_object('event_id', r.event_id)
    FROM unnest(runs, event_ids) AS r (run_id, event_id) WHERE o.id = r.run_id;
    SELECT count(nextval('rota.event_starts')) FROM generate_series(1, cardinality(runs));
$$;

-- Whether watch_rows or watch_row is called as watch_table has it called, and the watch is still there: whoever may
-- execute these functions, which run as their owner, can write a trigger too. What the catalogue says of the trigger
-- proves nothing, as it can be replaced while its statement runs. This asks for what cannot: how the call came about,
-- and that the names of the transition tables are no table of the caller's, which would be read where the trigger has
-- none. False: the watch was removed, so there is nothing to tell.
-- Called by: watch_row, watch_rows.
CREATE FUNCTION rota.is_watching(relation oid, trigger_name text, is_fired_so boolean, watch text)
RETURNS boolean LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF (is_fired_so AND watch ~ '^[0-9]{1,18}$' AND to_regclass('rota_old_rows') IS NULL
        AND to_regclass('rota_new_rows') IS NULL
        AND EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relpersistence <> 't')) IS NOT TRUE THEN
        RAISE EXCEPTION 'trigger "%" of % was not made by watch_table', trigger_name, relation::regclass
            USING ERRCODE = 'RO002', HINT = 'Drop it, and call watch_table for the table.';
    END IF;
    RETURN EXISTS (SELECT FROM rota.table_watches w WHERE w.id = watch::bigint);
END $$;

-- Trigger on a user's table, once for each statement: emits an event for each row. It runs as the owner of Rota's
-- schema, because whoever writes the table need not know of Rota; so it takes nothing from the caller's search_path,
-- and no expression that somebody wrote is evaluated in it: conditions are the triggers' own, and run as the writer.
-- Arguments: watch, event, columns, tenant, tenant column.
CREATE FUNCTION rota.watch_rows() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    operation constant text := lower(TG_OP);
    told      constant text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    columns   constant text[] := nullif(TG_ARGV[2], '')::text[];
    lasting   constant text := CASE TG_OP WHEN 'DELETE' THEN 'o' ELSE 'n' END;
    rows_from text;
    part      record;
BEGIN
    IF NOT rota.is_watching(TG_RELID, TG_NAME,
        (TG_WHEN, TG_LEVEL) = ('AFTER', 'STATEMENT') AND TG_OP <> 'TRUNCATE', TG_ARGV[0]) THEN
        RETURN NULL;
    END IF;
    rows_from := CASE TG_OP
        WHEN 'INSERT' THEN format('(SELECT NULL::jsonb AS o, %s AS n FROM rota_new_rows r)',
            rota.row_expression(TG_RELID, 'r', columns))
        WHEN 'DELETE' THEN format('(SELECT %s AS o, NULL::jsonb AS n FROM rota_old_rows r)',
            rota.row_expression(TG_RELID, 'r', columns))
        -- The server adds each row to both tables at once, so that their orders are the same.
        ELSE format('(SELECT a.j AS o, b.j AS n
                      FROM (SELECT row_number() OVER () AS i, %1$s AS j FROM rota_old_rows r) a
                      JOIN (SELECT row_number() OVER () AS i, %1$s AS j FROM rota_new_rows r) b ON b.i = a.i)',
            rota.row_expression(TG_RELID, 'r', columns)) END;
    -- In parts, so that a load of millions fits into memory.
    FOR part IN EXECUTE format('
        SELECT array_agg(x.payload ORDER BY x.i) AS payloads, array_agg(x.tenant ORDER BY x.i) AS tenants FROM (
            SELECT row_number() OVER () AS i, rota.row_payload($1, $2, $3, x.o, x.n, s.payload_bytes) AS payload,
                left(coalesce(x.%I ->> $4, $5), 200) AS tenant
            FROM %s x, rota.settings s) x GROUP BY (x.i - 1) / 10000 ORDER BY (x.i - 1) / 10000', lasting, rows_from)
        USING TG_RELID, told, operation, nullif(TG_ARGV[4], ''), TG_ARGV[3]
    LOOP
        PERFORM rota.emit_many(TG_ARGV[1] || '.' || operation, part.payloads, part.tenants,
            jsonb_build_object('table', told, 'operation', operation, 'trigger', TG_NAME));
    END LOOP;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION rota.watch_rows() FROM PUBLIC;

-- Trigger on a user's table, row by row: for watches that have a condition, which PostgreSQL only asks of single
-- rows. See watch_rows.
CREATE FUNCTION rota.watch_row() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    operation constant text := lower(TG_OP);
    told      constant text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    columns   constant text[] := nullif(TG_ARGV[2], '')::text[];
    old_row   jsonb;
    new_row   jsonb;
    lasting   jsonb;
BEGIN
    IF NOT rota.is_watching(TG_RELID, TG_NAME, (TG_WHEN, TG_LEVEL) = ('AFTER', 'ROW'), TG_ARGV[0]) THEN
        RETURN NULL;
    END IF;
    IF rota.is_plain_row(TG_RELID) THEN
        old_row := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
        new_row := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
        IF columns IS NOT NULL THEN
            old_row := (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(old_row) o WHERE o.key = ANY (columns));
            new_row := (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(new_row) n WHERE n.key = ANY (columns));
        END IF;
    ELSE
        IF TG_OP <> 'INSERT' THEN
            EXECUTE 'SELECT ' || rota.row_expression(TG_RELID, '($1)', columns) INTO old_row USING OLD;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            EXECUTE 'SELECT ' || rota.row_expression(TG_RELID, '($1)', columns) INTO new_row USING NEW;
        END IF;
    END IF;
    lasting := coalesce(new_row, old_row);
    PERFORM FROM rota.emit(TG_ARGV[1] || '.' || operation,
        payload => rota.row_payload(TG_RELID, told, operation, old_row, new_row, (SELECT s.payload_bytes
        FROM rota.settings s)), tenant => left(coalesce(lasting ->> nullif(TG_ARGV[4], ''), TG_ARGV[3]), 200),
        source => jsonb_build_object('table', told, 'operation', operation, 'trigger', TG_NAME));
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION rota.watch_row() FROM PUBLIC;

-- Installs triggers that emit an event for each row that is written, in the writer's transaction: EVENT.insert,
-- EVENT.update, EVENT.delete, with {"table", "operation", "old", "new"}. For who owns the table. One for each statement
-- where all rows count, which costs bulk loads least; with a condition or columns to compare, one for each row that
-- fits. Returns the number of the watch: of the one that is there, if the table is watched in just this way, as a
-- second would double each event.
-- Called by: operations/watches.py, users.
CREATE FUNCTION rota.watch_table(
    table_name text, operations text[] DEFAULT '{insert,update,delete}', update_of text[] DEFAULT NULL,
    condition text DEFAULT NULL, columns text[] DEFAULT NULL, event text DEFAULT NULL, tenant text DEFAULT '',
    tenant_column text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    target oid := rota.find_table(watch_table.table_name);
    found  record;
    watch  bigint := nextval('rota.watch_ids');
    same   bigint;
    wanted text[];
    prefix text;
    one    text;
    name   text;
    tests  text;
    made   jsonb := '{}';
    words  text;
BEGIN
    SELECT c.relkind, c.relowner, c.relpersistence, n.nspname, c.relname,
        format('%I.%I', n.nspname, c.relname) AS full_name, c.relnamespace = (SELECT j.relnamespace FROM pg_class j
            WHERE j.oid = 'rota.jobs'::regclass) AS is_ours
    INTO found FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target;
    wanted := ARRAY(SELECT o FROM unnest('{insert,update,delete}'::text[]) o WHERE o = ANY (watch_table.operations));
    prefix := coalesce(watch_table.event, regexp_replace(CASE WHEN found.nspname = 'public' THEN ''
        ELSE found.nspname || '.' END || found.relname, '[\s*]', '_', 'g'));
    IF found.relkind NOT IN ('r', 'p') OR found.relpersistence = 't' OR found.is_ours
        OR found.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
        RAISE EXCEPTION '% cannot be watched', found.full_name USING ERRCODE = 'RO002',
            HINT = 'Only permanent tables and partitioned tables can, and not those of the server or of Rota.';
    ELSIF NOT pg_has_role(found.relowner, 'USAGE') THEN
        RAISE EXCEPTION 'only "%", the owner of %, may watch it', pg_get_userbyid(found.relowner), found.full_name
            USING ERRCODE = 'RO002', HINT = 'Connect as that role, which also needs the privileges of a worker.';
    ELSIF wanted = '{}' OR cardinality(wanted) < cardinality(watch_table.operations) THEN
        RAISE EXCEPTION 'operations must be insert, update or delete, not %', watch_table.operations
            USING ERRCODE = 'RO002';
    ELSIF watch_table.update_of IS NOT NULL AND 'update' <> ALL (wanted) THEN
        RAISE EXCEPTION 'update_of requires the operation update'
            USING ERRCODE = 'RO002';
    ELSIF watch_table.update_of = '{}' OR watch_table.columns = '{}' THEN
        RAISE EXCEPTION 'columns and update_of must not be empty lists' USING ERRCODE = 'RO002';
    ELSIF prefix !~ '^\S+$' OR strpos(prefix, '*') > 0 OR length(prefix) > 190 THEN
        RAISE EXCEPTION 'event "%" must have 1 to 190 characters, no spaces and no *', prefix
            USING ERRCODE = 'RO002', HINT = 'Its events get this name, a dot and the operation: orders.insert.';
    ELSIF watch_table.tenant IS NULL OR length(watch_table.tenant) > 200 THEN
        RAISE EXCEPTION 'a tenant must have at most 200 characters' USING ERRCODE = 'RO002', COLUMN = 'tenant';
    END IF;
    one := rota.missing_column(target, watch_table.columns || watch_table.update_of || watch_table.tenant_column);
    IF one IS NOT NULL THEN
        RAISE EXCEPTION '% has no column "%"', found.full_name, one USING ERRCODE = 'RO002';
    ELSIF watch_table.tenant_column <> ALL (watch_table.columns) THEN
        RAISE EXCEPTION 'the tenant is read from column "%", which is not among the chosen columns',
            watch_table.tenant_column USING ERRCODE = 'RO002';
    END IF;
    IF watch_table.condition IS NOT NULL THEN
        PERFORM rota.check_condition(watch_table.condition);
    END IF;
    SELECT w.id INTO same FROM rota.table_watches w
    WHERE rota.watched_table(w) = target AND (w.tenant, w.event, w.operations, w.update_of, w.columns, w.condition,
        w.tenant_column) IS NOT DISTINCT FROM (watch_table.tenant, prefix, wanted, watch_table.update_of,
        watch_table.columns, watch_table.condition, watch_table.tenant_column)
      AND NOT EXISTS (SELECT FROM jsonb_object_keys(rota.as_object(w.triggers)) k WHERE NOT EXISTS (
          SELECT FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = k))
    ORDER BY w.id LIMIT 1;
    IF same IS NOT NULL THEN
        RETURN same;
    END IF;
    FOREACH one IN ARRAY wanted LOOP
        name := format('rota_watch_%s_%s', watch, one);
        tests := concat_ws(' AND ', '(' || watch_table.condition || ')', CASE WHEN one = 'update' THEN
            (SELECT '(' || string_agg(format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', u), ' OR ') || ')'
                FROM unnest(watch_table.update_of) u) END);
        BEGIN
            EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s EXECUTE FUNCTION rota.%I(%L, %L, %L, %L, %L)', name,
                upper(one) || CASE WHEN one = 'update'
                    THEN coalesce((SELECT ' OF ' || string_agg(format('%I', u), ', ')
                    FROM unnest(watch_table.update_of) u), '')
                              ELSE '' END,
                found.full_name,
                CASE WHEN tests <> '' THEN format('FOR EACH ROW WHEN (%s)', tests) ELSE 'REFERENCING'
                    || CASE WHEN one <> 'insert' THEN ' OLD TABLE AS rota_old_rows' ELSE '' END
                    || CASE WHEN one <> 'delete' THEN ' NEW TABLE AS rota_new_rows' ELSE '' END
                    || ' FOR EACH STATEMENT' END,
                CASE WHEN tests <> '' THEN 'watch_row' ELSE 'watch_rows' END,
                watch, prefix, coalesce(watch_table.columns::text, ''), watch_table.tenant,
                coalesce(watch_table.tenant_column, ''));
        EXCEPTION
            WHEN lock_not_available THEN
                RAISE EXCEPTION '% is in use: its trigger could not be created within 5 seconds', found.full_name
                    USING ERRCODE = 'RO005', HINT = 'Try again when no long transaction uses the table.';
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS words = MESSAGE_TEXT;
                RAISE EXCEPTION '% cannot be watched on %: %', found.full_name, one, words
                    USING ERRCODE = 'RO002',
                        HINT = 'A condition may use new and old; an insert has no old, a delete no new.';
        END;
        made := made || (SELECT jsonb_build_object(t.tgname, pg_get_triggerdef(t.oid)) FROM pg_trigger t
            WHERE t.tgrelid = target AND t.tgname = name);
    END LOOP;
    INSERT INTO rota.table_watches (tenant, id, table_name, event, operations, update_of, columns, condition,
        tenant_column, triggers, created_by)
    VALUES (watch_table.tenant, watch, found.full_name, prefix, wanted, watch_table.update_of,
        watch_table.columns, watch_table.condition, watch_table.tenant_column, made,
        rota.who(watch_table.actor));
    PERFORM rota.write_audit(watch_table.actor, 'watch.created', 'watch', watch::text, NULL,
        jsonb_strip_nulls(jsonb_build_object(
        'table', found.full_name, 'event', prefix, 'operations', wanted, 'update_of', watch_table.update_of, 'columns',
        watch_table.columns, 'condition', watch_table.condition, 'tenant_column', watch_table.tenant_column)), NULL,
            watch_table.tenant);
    RETURN watch;
END $$;

-- Takes a watch and its triggers away; given a table, all of its watches. Answers their numbers.
-- Called by: operations/watches.py, sql/testing/reset.sql, users.
CREATE FUNCTION rota.unwatch_table(table_name text DEFAULT NULL, watch bigint DEFAULT NULL, actor text DEFAULT NULL,
    reason text DEFAULT NULL)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    one  record;
    name text;
    done bigint[] := '{}';
BEGIN
    IF num_nonnulls(unwatch_table.table_name, unwatch_table.watch) <> 1 THEN
        RAISE EXCEPTION 'pass either table_name or watch' USING ERRCODE = 'RO002';
    END IF;
    FOR one IN SELECT w.*, c.oid AS target, CASE WHEN c.oid IS NOT NULL
        THEN format('%I.%I', n.nspname, c.relname) END AS full_name FROM rota.table_watches w
               LEFT JOIN pg_class c ON c.oid = rota.watched_table(w)
               LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE w.id = unwatch_table.watch
                  OR w.table_name IN (unwatch_table.table_name, 'public.' || unwatch_table.table_name)
                  OR c.oid = rota.table_of(unwatch_table.table_name)
               ORDER BY w.id LOOP
        -- Workers write table_watches: a trigger that does not call us is not ours to drop.
        FOR name IN SELECT t.tgname FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
                    JOIN pg_class own ON own.oid = 'rota.jobs'::regclass AND own.relnamespace = f.pronamespace
                    WHERE t.tgrelid = one.target AND one.triggers ? t.tgname AND NOT t.tgisinternal
                      AND f.proname IN ('watch_row', 'watch_rows') LOOP
            BEGIN
                EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', name, one.full_name);
            EXCEPTION WHEN lock_not_available THEN
                RAISE EXCEPTION '% is in use: its trigger could not be dropped within 5 seconds', one.full_name
                    USING ERRCODE = 'RO005', HINT = 'Try again when no long transaction uses the table.';
            END;
        END LOOP;
        DELETE FROM rota.table_watches w WHERE w.tenant = one.tenant AND w.id = one.id;
        PERFORM rota.write_audit(unwatch_table.actor, 'watch.deleted', 'watch', one.id::text,
            jsonb_build_object('table', one.table_name, 'event', one.event,
            'operations', one.operations), NULL, unwatch_table.reason, one.tenant);
        done := done || one.id;
    END LOOP;
    IF done = '{}' THEN
        RAISE EXCEPTION '%', CASE WHEN unwatch_table.watch IS NOT NULL
            THEN format('there is no watch %s', unwatch_table.watch)
                                  ELSE format('%s is not watched', unwatch_table.table_name) END
            USING ERRCODE = 'RO021', HINT = 'rota.table_watches lists them.';
    END IF;
    RETURN done;
END $$;

-- The tables that are watched, and what is wrong where a watch no longer works.
-- Called by: sql/events/watches.sql, users.
CREATE FUNCTION rota.watches() RETURNS TABLE (
    id bigint, tenant text, table_name text, event text, operations text[], update_of text[], columns text[],
    condition text, tenant_column text, created_at timestamptz, created_by text, drift text[]
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT w.id, w.tenant, w.table_name, w.event, w.operations, w.update_of, w.columns, w.condition, w.tenant_column,
        w.created_at, w.created_by,
        CASE WHEN c.oid IS NULL THEN ARRAY['the table was dropped'] ELSE array_remove(ARRAY[
            CASE WHEN format('%I.%I', n.nspname, c.relname) <> w.table_name
                THEN format('the table was renamed to %I.%I', n.nspname, c.relname) END,
            (SELECT 'the table has no column ' || string_agg(format('%I', m), ', ')
                FROM unnest(w.columns || w.update_of || w.tenant_column) m
             WHERE rota.missing_column(c.oid, ARRAY[m]) IS NOT NULL)
        ] || ARRAY(
            SELECT CASE
                WHEN t.oid IS NULL THEN format('the trigger %s was dropped', k.key)
                WHEN t.tgenabled = 'D' THEN format('the trigger %s is disabled', k.key)
                WHEN f.pronamespace <> own.relnamespace OR f.proname NOT IN ('watch_row', 'watch_rows')
                    THEN format('the trigger %s calls another function', k.key)
                WHEN NOT f.prosecdef OR f.proowner <> own.relowner
                    THEN format('the function of the trigger %s was replaced', k.key)
                WHEN pg_get_triggerdef(t.oid) <> k.value AND format('%I.%I', n.nspname, c.relname) = w.table_name
                    THEN format('the trigger %s was changed', k.key)
            END
            FROM jsonb_each_text(rota.as_object(w.triggers)) k
            LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = k.key AND NOT t.tgisinternal
            LEFT JOIN pg_proc f ON f.oid = t.tgfoid ORDER BY k.key), NULL) END
    FROM rota.table_watches w
    CROSS JOIN (SELECT j.relnamespace, j.relowner FROM pg_class j WHERE j.oid = 'rota.jobs'::regclass) own
    LEFT JOIN pg_class c ON c.oid = rota.watched_table(w)
    LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY w.id
$$;
