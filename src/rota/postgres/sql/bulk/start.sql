SELECT rota.start_bulk_action(
    verb => %(verb)s::text, filter => %(filter)s::text::jsonb, payload => %(payload)s::text::jsonb, delay_seconds => %(delay)s::double precision,
    most => %(most)s::bigint, rate => %(rate)s::double precision, reason => %(reason)s::text, actor => %(actor)s::text) AS id
