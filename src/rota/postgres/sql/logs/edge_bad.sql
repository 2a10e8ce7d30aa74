-- Where the next warnings and errors before the cursor begin.
SELECT coalesce((SELECT l.at FROM rota.logs l WHERE l.at >= %(low)s::timestamptz AND l.at <= %(at)s::timestamptz AND l.level IN ('warning', 'error', 'critical')
                 ORDER BY l.at DESC OFFSET %(chunk)s::integer LIMIT 1), %(low)s::timestamptz) AS edge
