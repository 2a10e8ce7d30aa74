-- The role of workers may own nothing. What only the owner of a table may do to it is done by functions that run as their owner, for
-- those to whom grant_worker has given the right.
ALTER FUNCTION rota.ensure_partitions(timestamptz, timestamptz) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION rota.ensure_ledger(timestamptz[]) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION rota.ensure_partitions(timestamptz, timestamptz), rota.ensure_ledger(timestamptz[]) FROM PUBLIC;

-- Without CONCURRENTLY, which no function can say: it takes the lock at once, or leaves the partition to the next pass.
CREATE FUNCTION rota.detach_part(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    part record;
BEGIN
    SELECT p.parent, p.state INTO part FROM rota.history_parts() p WHERE p.partition = detach_part.name;
    IF part.state IN ('attached', 'detaching') THEN
        EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I %s', part.parent, detach_part.name,
                       CASE part.state WHEN 'detaching' THEN 'FINALIZE' ELSE '' END);
    END IF;
END $$;

CREATE FUNCTION rota.drop_part(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    IF EXISTS (SELECT FROM rota.history_parts() p WHERE p.partition = drop_part.name AND p.state = 'detached') THEN
        EXECUTE format('DROP TABLE rota.%I', drop_part.name);
    END IF;
END $$;

-- Lines that come in for that partition wait for it: it is done to days that are over.
CREATE FUNCTION rota.index_log_words(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    span record;
BEGIN
    SELECT s.index_name, s.from_at, s.to_at, p.relation INTO span
    FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition WHERE s.index_name = index_log_words.name;
    IF FOUND THEN
        EXECUTE format('DROP INDEX IF EXISTS rota.%I', span.index_name);
        EXECUTE format('CREATE INDEX %I ON %s USING gin (rota.log_words(message, fields)) WITH (fastupdate = off) WHERE at >= %L AND at < %L',
                       span.index_name, span.relation, span.from_at, span.to_at);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.detach_part(text), rota.drop_part(text), rota.index_log_words(text) FROM PUBLIC;

-- As before (0024); a role that does not own the lines has the owner's function index them, once their day is over.
CREATE OR REPLACE FUNCTION rota.next_log_index(least_bytes bigint) RETURNS TABLE (leftover text, statement text, analysis text)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    is_owner boolean := (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'rota.logs'::regclass);
    part  record;
    last  record;
    size  bigint;
    until timestamptz;
BEGIN
    DELETE FROM rota.log_spans s WHERE NOT EXISTS (SELECT FROM rota.log_partitions() p WHERE p.partition = s.partition);
    FOR part IN SELECT * FROM rota.log_partitions() p WHERE p.from_at < clock ORDER BY p.from_at DESC LOOP
        SELECT s.to_at, s.bytes INTO last FROM rota.log_spans s WHERE s.partition = part.partition ORDER BY s.to_at DESC LIMIT 1;
        size := pg_relation_size(part.relation);
        -- Lines come some seconds late; what comes later still is indexed by the insert.
        until := least(clock - interval '1 minute', part.to_at);
        IF size > 0 AND until > coalesce(last.to_at, part.from_at)
           AND (until = part.to_at OR (is_owner AND size - coalesce(last.bytes, 0) >= greatest(least_bytes, size / 8))) THEN
            INSERT INTO rota.log_spans VALUES (
                format('%s_words_%s', part.partition, to_char(coalesce(last.to_at, part.from_at) AT TIME ZONE 'UTC', 'HH24MISSUS')),
                part.partition, coalesce(last.to_at, part.from_at), until, size)
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    FOR part IN SELECT s.*, p.relation, s.from_at > p.from_at OR s.to_at < p.to_at AS is_partial
                FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
                WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                                  WHERE i.indrelid = p.relation AND c.relname = s.index_name AND i.indisvalid)
                  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index b WHERE b.datname = current_database() AND b.relid = p.relation)
                ORDER BY s.from_at DESC LIMIT 1 LOOP
        IF NOT is_owner THEN
            statement := format('SELECT rota.index_log_words(%L)', part.index_name);
            analysis := 'SELECT';
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- An invalid one is what a crash has left, or somebody builds it: the lock of the table tells.
        leftover := (SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', c.oid::regclass) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
                     WHERE i.indrelid = part.relation AND c.relname = part.index_name);
        statement := format('CREATE INDEX CONCURRENTLY %I ON %s USING gin (rota.log_words(message, fields)) WITH (fastupdate = off)',
                            part.index_name, part.relation)
            || CASE WHEN part.is_partial THEN format(' WHERE at >= %L AND at < %L', part.from_at, part.to_at) ELSE '' END;
        -- The planner has to know how rare a word is.
        analysis := format('ANALYZE %s', part.relation);
        RETURN NEXT;
    END LOOP;
END $$;

-- All that a worker, an API server and the command line need, now and after later migrations. For the schema's owner, or a superuser.
CREATE FUNCTION rota.grant_worker(role_name text) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text;
    owner oid;
    given record;
BEGIN
    SELECT quote_ident(n.nspname), c.relowner INTO place, owner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'rota.jobs'::regclass;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name) THEN
        RAISE EXCEPTION 'there is no role "%"', role_name
            USING ERRCODE = 'RO002', HINT = format('CREATE ROLE %I LOGIN PASSWORD ''...'' first.', role_name);
    ELSIF NOT pg_has_role(owner, 'USAGE') THEN
        RAISE EXCEPTION 'only "%", which owns the schema, may give others the rights of workers', pg_get_userbyid(owner)
            USING ERRCODE = 'RO002', HINT = 'Connect as that role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', place, role_name);
    FOR given IN SELECT * FROM (VALUES ('SELECT, INSERT, UPDATE, DELETE', 'TABLES'), ('USAGE, SELECT, UPDATE', 'SEQUENCES')) v (rights, things) LOOP
        EXECUTE format('GRANT %s ON ALL %s IN SCHEMA %s TO %I', given.rights, given.things, place, role_name);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT %s ON %s TO %I',
                       pg_get_userbyid(owner), place, given.rights, given.things, role_name);
    END LOOP;
    -- Who migrates is the owner's business.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON rota.migrations FROM %I', role_name);
    -- Not what calls functions as other roles: allow_run_as gives that.
    FOR given IN SELECT p.oid::regprocedure AS function FROM pg_proc p
                 WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass)
                   AND p.proname NOT LIKE 'run\_as\_%' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', given.function, role_name);
    END LOOP;
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT EXECUTE ON FUNCTIONS TO %I',
                   pg_get_userbyid(owner), place, role_name);
    PERFORM rota.write_audit(NULL, 'role.granted', 'role', role_name, NULL, NULL, NULL);
END $$;
