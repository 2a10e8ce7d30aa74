-- What the API has answered under an idempotency key, so that a request which is sent twice is
-- carried out once. A row without a status is a request under way.

CREATE TABLE rota.answers (
    key_hash     bytea PRIMARY KEY,               -- of the caller and the key
    request_hash bytea NOT NULL,                  -- of method, path and body
    claim        uuid NOT NULL,                   -- who carries it out: only that one writes here
    claimed_at   timestamptz NOT NULL DEFAULT rota.now(),
    expires_at   timestamptz NOT NULL,
    status       smallint CHECK (status BETWEEN 200 AND 299),
    headers      jsonb CHECK (jsonb_typeof(headers) = 'object'),
    body         bytea,
    CHECK (num_nulls(status, headers, body) IN (0, 3))
);
CREATE INDEX answers_expired ON rota.answers (expires_at);

COMMENT ON TABLE rota.answers IS 'Answers of the API by idempotency key, kept for a day.';

-- A command may say why for all that it writes, by a setting that is local to its transaction.
CREATE OR REPLACE FUNCTION rota.write_audit(
    actor text, action text, object_type text, object_id text,
    before jsonb DEFAULT NULL, after jsonb DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT ''
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.audit (actor, action, object_type, object_id, before, after, reason, tenant)
    VALUES (coalesce(write_audit.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user),
            write_audit.action, write_audit.object_type, write_audit.object_id, write_audit.before, write_audit.after,
            coalesce(write_audit.reason, nullif(current_setting('rota' || '.reason', true), '')), write_audit.tenant)
$$;
