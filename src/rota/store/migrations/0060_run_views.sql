-- Filters of the list of runs that somebody has given a name, for everybody who looks at it.
CREATE TABLE rota.run_views (
    name       text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    query      text NOT NULL CHECK (length(query) BETWEEN 1 AND 4000),
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT rota.now()
);
COMMENT ON TABLE rota.run_views IS 'Filters of the list of runs that have a name.';

-- Replaces one of that name: the audit keeps what it was.
CREATE FUNCTION rota.save_run_view(name text, query text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := coalesce(save_run_view.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    old text;
BEGIN
    SELECT v.query INTO old FROM rota.run_views v WHERE v.name = save_run_view.name FOR UPDATE;
    INSERT INTO rota.run_views AS v (name, query, created_by) VALUES (save_run_view.name, save_run_view.query, who)
    ON CONFLICT ON CONSTRAINT run_views_pkey DO UPDATE SET query = excluded.query, created_by = excluded.created_by, created_at = excluded.created_at;
    PERFORM rota.write_audit(who, 'view.saved', 'view', save_run_view.name, CASE WHEN old IS NOT NULL THEN jsonb_build_object('query', old) END,
        jsonb_build_object('query', save_run_view.query), save_run_view.reason);
END $$;

CREATE FUNCTION rota.delete_run_view(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    old text;
BEGIN
    DELETE FROM rota.run_views v WHERE v.name = delete_run_view.name RETURNING v.query INTO old;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no view "%"', delete_run_view.name USING ERRCODE = 'RO014';
    END IF;
    PERFORM rota.write_audit(delete_run_view.actor, 'view.deleted', 'view', delete_run_view.name, jsonb_build_object('query', old), NULL,
        delete_run_view.reason);
END $$;
