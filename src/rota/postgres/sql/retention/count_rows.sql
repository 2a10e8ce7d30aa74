SELECT CASE %(table)s::text
    WHEN 'rollups' THEN (SELECT count(*) FROM rota.rollup_minutes WHERE minute < %(before_at)s::timestamptz)
    WHEN 'rollup_sums' THEN (SELECT count(*) FROM rota.rollup_spans WHERE span <> 'ever' AND started_at < %(before_at)s::timestamptz)
    WHEN 'schedule_days' THEN (SELECT count(*) FROM rota.schedule_days WHERE day < (%(before_at)s::timestamptz AT TIME ZONE 'UTC')::date)
    WHEN 'id_marks' THEN (SELECT count(*) FROM rota.id_marks WHERE at < %(before_at)s::timestamptz)
    WHEN 'audit' THEN (SELECT count(*) FROM rota.audit WHERE at < %(before_at)s::timestamptz)
    WHEN 'backfill_times' THEN (SELECT count(*) FROM rota.backfill_times t JOIN rota.old_backfills(%(before_at)s::timestamptz) b ON b = t.backfill_id)
    WHEN 'backfills' THEN (SELECT count(*) FROM rota.old_backfills(%(before_at)s::timestamptz))
    WHEN 'schedules' THEN (SELECT count(*) FROM rota.old_schedules(%(before_at)s::timestamptz))
    WHEN 'init_runs' THEN (SELECT count(*) FROM rota.init_runs i WHERE rota.is_old_init(i, %(before_at)s::timestamptz))
    WHEN 'error_counts' THEN (SELECT count(*) FROM rota.error_counts WHERE at < %(before_at)s::timestamptz)
    WHEN 'error_groups' THEN (SELECT count(*) FROM rota.error_groups WHERE last_seen_at < %(before_at)s::timestamptz)
    WHEN 'handled_runs' THEN (SELECT count(*) FROM rota.handled WHERE kind = 'run' AND handled_at < %(before_at)s::timestamptz)
    WHEN 'bulk_actions' THEN (SELECT count(*) FROM rota.bulk_actions WHERE finished_at < %(before_at)s::timestamptz) END AS rows
