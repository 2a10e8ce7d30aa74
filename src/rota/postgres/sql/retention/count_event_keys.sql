SELECT count(*) AS rows FROM rota.event_keys WHERE expires_at < %(before_at)s::timestamptz
