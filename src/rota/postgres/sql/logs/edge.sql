-- Where the next lines before the cursor begin, by the order of time.
SELECT coalesce((SELECT l.at FROM rota.logs l WHERE l.at >= %(low)s::timestamptz AND l.at <= %(at)s::timestamptz
                 ORDER BY l.at DESC OFFSET %(chunk)s::integer LIMIT 1), %(low)s::timestamptz) AS edge
