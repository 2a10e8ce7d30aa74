SELECT request_hash, status, headers, body FROM rota.api_responses WHERE key_hash = %(key_hash)s
