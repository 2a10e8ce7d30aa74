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
