-- How many lines there are between two times, counted up to `most`.
SELECT count(*) AS lines FROM (
    SELECT FROM rota.logs l
    WHERE l.at >= %(since)s::timestamptz AND l.at < %(until)s::timestamptz
      AND (%(jobs)s::text[] IS NULL OR l.job = ANY (%(jobs)s::text[]))
      AND (NOT %(is_bad)s::boolean OR l.level IN ('warning', 'error', 'critical'))
    LIMIT %(most)s::integer) l
