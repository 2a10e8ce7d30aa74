DELETE FROM rota.api_responses WHERE key_hash = %(key_hash)s AND claim = %(claim)s::uuid AND status IS NULL
