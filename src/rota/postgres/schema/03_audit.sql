-- Who did what, to what, and why: `audit`, one row for each change, written in the transaction of the change by
-- `write_audit`. `act_as` names the person for the rest of a transaction, `say_why` the person and the reason until
-- `unsay`. `api_responses` keeps what the API answered to a request with an idempotency key.

-- One row for each change that somebody made, and who, why, before and after. Kept for ever unless retention says
-- otherwise.
CREATE TABLE rota.audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT rota.now(),
    actor       text NOT NULL,
    db_user     text NOT NULL DEFAULT session_user,
    action      text NOT NULL,
    object_type text NOT NULL,
    object_id   text NOT NULL,
    tenant      text NOT NULL DEFAULT '',
    before      jsonb,
    after       jsonb,
    reason      text
);
CREATE INDEX audit_at ON rota.audit (at);
CREATE INDEX audit_actor ON rota.audit (actor, id);
-- The audit is kept for ever, and people look for what is rare in it: each of its filters finds the last entries by
-- itself.
CREATE INDEX audit_action ON rota.audit (action, id);
CREATE INDEX audit_noun ON rota.audit (object_type, id);
CREATE INDEX audit_name ON rota.audit (object_id, id);
-- Entries with data of runs or of tenants, which go with them (forget_values). Few have any.
CREATE INDEX audit_values ON rota.audit (object_id)
    WHERE before ?| '{payload,metadata,run_metadata,filter}' OR after ?| '{payload,metadata,run_metadata,filter}';

-- Says who acts, for the rest of the transaction: the triggers of the audit read it from a setting that is local to
-- it. NULL changes nothing.
-- Called by: postgres/audit.py, prune_rows, say_why, settle_schedule_ends, sql/jobs/act_as.sql, write_ticks.
CREATE FUNCTION rota.act_as(actor text) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('rota' || '.actor', actor, true) WHERE actor IS NOT NULL
$$;

-- Who acts: the actor that a call names, else the one of the transaction (SET LOCAL rota.actor), else the role of the
-- session.
-- Called by: many.
CREATE FUNCTION rota.who(named text DEFAULT NULL) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(who.named, nullif(current_setting('rota' || '.actor', true), ''), session_user)
$$;

-- Says who acts and why, for the audit of what one function does: NULL leaves what was said. Returns the actor and the
-- reason that held before, for `unsay`: what the caller's transaction does next is its own again.
-- Called by: many.
CREATE FUNCTION rota.say_why(actor text, reason text) RETURNS text[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := ARRAY[coalesce(current_setting('rota' || '.actor', true), ''),
                        coalesce(current_setting('rota' || '.reason', true), '')];
BEGIN
    PERFORM rota.act_as(actor), set_config('rota' || '.reason', coalesce(reason, was[2]), true);
    RETURN was;
END $$;

-- Puts back the actor and the reason that `say_why` returned.
-- Called by: many.
CREATE FUNCTION rota.unsay(was text[]) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('rota' || '.actor', was[1], true), set_config('rota' || '.reason', was[2], true)
$$;

-- Writes one entry of the audit, in the transaction of what it tells about. Actor and reason are those given, else
-- what the transaction has said (act_as, say_why), else the role of the session.
-- Called by: many.
CREATE FUNCTION rota.write_audit(
    actor text, action text, object_type text, object_id text,
    before jsonb DEFAULT NULL, after jsonb DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT ''
) RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.audit (actor, action, object_type, object_id, before, after, reason, tenant)
    VALUES (rota.who(write_audit.actor),
            write_audit.action, write_audit.object_type, write_audit.object_id, write_audit.before, write_audit.after,
            coalesce(write_audit.reason, nullif(current_setting('rota' || '.reason', true), '')), write_audit.tenant)
$$;

-- Takes data out of the entries about these runs, or about whatever belongs to a tenant: who did what, when and why
-- stays.
-- Called by: delete_traces, forget_tenant.
CREATE FUNCTION rota.forget_values(of_runs bigint[], of_tenant text DEFAULT NULL) RETURNS void LANGUAGE plpgsql
VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    names constant text[] := '{payload,metadata,run_metadata,filter}';
BEGIN
    IF of_runs IS NOT NULL THEN
        UPDATE rota.audit a SET before = a.before - names, after = a.after - names
        WHERE (a.before ?| '{payload,metadata,run_metadata,filter}'
            OR a.after ?| '{payload,metadata,run_metadata,filter}')
          AND a.object_type = 'run' AND a.object_id = ANY (of_runs::text[]);
    ELSE
        UPDATE rota.audit a SET before = a.before - names, after = a.after - names
        WHERE (a.before ?| '{payload,metadata,run_metadata,filter}'
            OR a.after ?| '{payload,metadata,run_metadata,filter}')
          AND a.tenant = of_tenant;
    END IF;
END $$;

-- Writes to the audit what was created, changed or deleted of a row that people edit. `words`: for the three; `hidden`:
-- columns that are no change by themselves.
-- Called by: after_calendar, after_template.
CREATE FUNCTION rota.audit_row(noun text, words text[], was jsonb, given jsonb, hidden text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    before constant jsonb := was - 'name' - hidden;
    after  constant jsonb := given - 'name' - hidden;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, noun || '.' || words[CASE WHEN was IS NULL THEN 1 WHEN given IS NULL THEN 3
            ELSE 2 END], noun, coalesce(given, was) ->> 'name', before, after);
    END IF;
END $$;

-- Who last did one of these actions to an object, when and why; only its latest 200 entries are looked at.
-- Called by: why_ended_run, why_job_off, why_schedule.
CREATE FUNCTION rota.last_audit(of_type text, of_id text, of_tenant text, of_actions text[], OUT at timestamptz,
    OUT actor text, OUT reason text)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT a.at, a.actor, a.reason
    FROM (SELECT * FROM rota.audit l WHERE l.object_type = of_type AND l.object_id = of_id ORDER BY l.id DESC
        LIMIT 200) a
    WHERE a.action = ANY (of_actions) AND a.tenant = of_tenant ORDER BY a.id DESC LIMIT 1
$$;

-- What the API answered to a request with an idempotency key: the same key gets the same answer.
CREATE TABLE rota.api_responses (
    key_hash     bytea PRIMARY KEY,  -- of the caller and the key
    request_hash bytea NOT NULL,     -- of method, path and body
    claim        uuid NOT NULL,      -- who carries it out: only that one writes here
    claimed_at   timestamptz NOT NULL DEFAULT rota.now(),
    expires_at   timestamptz NOT NULL,
    status       smallint CHECK (status BETWEEN 200 AND 299),
    headers      jsonb CHECK (jsonb_typeof(headers) = 'object'),
    body         bytea,
    CHECK (num_nulls(status, headers, body) IN (0, 3))
);
CREATE INDEX api_responses_expired ON rota.api_responses (expires_at);
COMMENT ON TABLE rota.api_responses IS 'Responses of the API by idempotency key, kept for a day.';

-- Deletes responses of the API that nobody can ask for any more.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.sweep_responses(max_rows integer) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM rota.api_responses a WHERE a.ctid = ANY (ARRAY(
        SELECT e.ctid FROM rota.api_responses e WHERE e.expires_at <= rota.now()
        ORDER BY e.expires_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
