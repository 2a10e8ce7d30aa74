WITH gone AS (
    DELETE FROM rota.api_responses WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM rota.api_responses WHERE expires_at <= rota.now()
        ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone
