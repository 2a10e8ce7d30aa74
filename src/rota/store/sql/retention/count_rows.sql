SELECT CASE %(table)s::text
    WHEN 'rollups' THEN (SELECT count(*) FROM rota.rollup_minutes WHERE minute < %(before_at)s::timestamptz)
    WHEN 'rollup_sums' THEN (SELECT count(*) FROM rota.rollup_spans WHERE span <> 'ever' AND started_at < %(before_at)s::timestamptz)
    WHEN 'schedule_days' THEN (SELECT count(*) FROM rota.schedule_days WHERE day < (%(before_at)s::timestamptz AT TIME ZONE 'UTC')::date)
    WHEN 'id_marks' THEN (SELECT count(*) FROM rota.id_marks WHERE at < %(before_at)s::timestamptz)
    WHEN 'audit' THEN (SELECT count(*) FROM rota.audit WHERE at < %(before_at)s::timestamptz) END AS rows
