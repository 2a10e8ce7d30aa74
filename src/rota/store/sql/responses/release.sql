DELETE FROM rota.answers WHERE key_hash = %(key_hash)s AND claim = %(claim)s::uuid AND status IS NULL
