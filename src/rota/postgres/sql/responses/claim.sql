-- Takes the key if nobody has it, if its time is over, or if whoever had it has not come back.
INSERT INTO rota.api_responses AS a (key_hash, request_hash, claim, expires_at)
VALUES (%(key_hash)s, %(request_hash)s, %(claim)s::uuid, rota.now() + make_interval(secs => %(keep_seconds)s))
ON CONFLICT (key_hash) DO UPDATE
SET request_hash = excluded.request_hash, claim = excluded.claim, claimed_at = rota.now(),
    expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
WHERE a.expires_at <= rota.now()
   OR (a.status IS NULL AND a.claimed_at <= rota.now() - make_interval(secs => %(patience_seconds)s))
RETURNING true AS is_claimed
