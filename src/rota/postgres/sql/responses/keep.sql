UPDATE rota.api_responses SET status = %(status)s, headers = %(headers)s::jsonb, body = %(body)s
WHERE key_hash = %(key_hash)s AND claim = %(claim)s::uuid
