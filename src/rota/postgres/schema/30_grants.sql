-- `grant_worker` gives a role that owns nothing what workers, the API and commands need (docs/guides/servers.md).

-- All that a worker, an API server and the command line need, now and after later migrations. For the schema's owner,
-- or a superuser.
-- Called by: app.py, users.
CREATE FUNCTION rota.grant_worker(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
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
        RAISE EXCEPTION 'only "%", the owner of the schema, may grant the rights of workers', pg_get_userbyid(owner)
            USING ERRCODE = 'RO002', HINT = 'Connect as that role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', place, role_name);
    FOR given IN SELECT * FROM (VALUES ('SELECT, INSERT, UPDATE, DELETE', 'TABLES'),
        ('USAGE, SELECT, UPDATE', 'SEQUENCES')) v (rights, things) LOOP
        EXECUTE format('GRANT %s ON ALL %s IN SCHEMA %s TO %I', given.rights, given.things, place, role_name);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT %s ON %s TO %I',
                       pg_get_userbyid(owner), place, given.rights, given.things, role_name);
    END LOOP;
    -- Who migrates, which tables are partitioned, and what becomes an index, is the owner's business.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON rota.migrations, rota.partitioned, rota.log_spans FROM %I',
        role_name);
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
