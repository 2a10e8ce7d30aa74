SELECT coalesce(max(number), 0), coalesce(max(oldest_code), 0),
    bool_or(number = %(number)s AND name <> %(name)s) IS TRUE
FROM rota.migrations
