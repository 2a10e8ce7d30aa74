-- A new schedule; one of that name is left alone, and nothing is answered.
INSERT INTO rota.schedules (tenant, name, is_enabled,
    job, description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at,
    end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_window_seconds, catch_up_limit, grace_seconds, overlap,
    max_concurrent_runs, pause_after_failures, requires, is_shadow, delete_when_finished, payload, queue, priority, max_attempts,
    timeout_seconds, run_tags, run_metadata)
SELECT %(tenant)s::text, %(name)s::text, coalesce(w.is_enabled, true),
    w.job, w.description, w.tags, w.metadata, w.cron, w.interval_seconds, w.run_at, w.init, w.has_seconds, w.timezone, w.gap, w.fold,
    w.every_from, w.start_at, w.end_at, w.max_runs, w.jitter_seconds, w.burst_allowed, w.calendar, w.on_closed, w.catch_up, w.catch_up_window_seconds,
    w.catch_up_limit, w.grace_seconds, w.overlap, w.max_concurrent_runs, w.pause_after_failures, w.requires, w.is_shadow,
    w.delete_when_finished, w.payload, w.queue, w.priority, w.max_attempts, w.timeout_seconds, w.run_tags, w.run_metadata
FROM jsonb_populate_record(NULL::rota.schedules, %(columns)s::text::jsonb) w
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id
