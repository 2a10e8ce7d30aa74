SELECT request_hash, status, headers, body FROM rota.answers WHERE key_hash = %(key_hash)s
