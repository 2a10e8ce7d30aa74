-- Changes the columns that are given, and writes nothing when they say so already. Returns the id of what was written.
UPDATE rota.schedules s SET
    job = w.job, description = w.description, tags = w.tags, metadata = w.metadata, cron = w.cron, interval_seconds = w.interval_seconds,
    run_at = w.run_at, init = w.init, has_seconds = w.has_seconds, timezone = w.timezone, gap = w.gap, fold = w.fold, every_from = w.every_from,
    start_at = w.start_at, end_at = w.end_at, max_runs = w.max_runs, jitter_seconds = w.jitter_seconds, burst_allowed = w.burst_allowed, calendar = w.calendar,
    on_closed = w.on_closed, catch_up = w.catch_up, catch_up_window_seconds = w.catch_up_window_seconds, catch_up_limit = w.catch_up_limit,
    grace_seconds = w.grace_seconds, overlap = w.overlap, max_concurrent_runs = w.max_concurrent_runs,
    pause_after_failures = w.pause_after_failures, requires = w.requires, is_shadow = w.is_shadow,
    delete_when_finished = w.delete_when_finished, payload = w.payload, queue = w.queue, priority = w.priority,
    max_attempts = w.max_attempts, timeout_seconds = w.timeout_seconds, run_tags = w.run_tags, run_metadata = w.run_metadata,
    is_enabled = w.is_enabled
FROM rota.schedules o CROSS JOIN LATERAL jsonb_populate_record(o, %(columns)s::text::jsonb) w
WHERE o.id = %(id)s::bigint AND s.id = o.id AND (
    s.job, s.description, s.tags, s.metadata, s.cron, s.interval_seconds, s.run_at, s.init, s.has_seconds, s.timezone, s.gap,
    s.fold, s.every_from, s.start_at, s.end_at, s.max_runs, s.jitter_seconds, s.burst_allowed, s.calendar, s.on_closed, s.catch_up,
    s.catch_up_window_seconds, s.catch_up_limit, s.grace_seconds, s.overlap, s.max_concurrent_runs, s.pause_after_failures, s.requires,
    s.is_shadow, s.delete_when_finished, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.run_tags,
    s.run_metadata, s.is_enabled
) IS DISTINCT FROM (
    w.job, w.description, w.tags, w.metadata, w.cron, w.interval_seconds, w.run_at, w.init, w.has_seconds, w.timezone, w.gap,
    w.fold, w.every_from, w.start_at, w.end_at, w.max_runs, w.jitter_seconds, w.burst_allowed, w.calendar, w.on_closed, w.catch_up,
    w.catch_up_window_seconds, w.catch_up_limit, w.grace_seconds, w.overlap, w.max_concurrent_runs, w.pause_after_failures, w.requires,
    w.is_shadow, w.delete_when_finished, w.payload, w.queue, w.priority, w.max_attempts, w.timeout_seconds, w.run_tags,
    w.run_metadata, w.is_enabled
)
RETURNING s.id
