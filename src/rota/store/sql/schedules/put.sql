-- Makes a schedule, or brings one up to what is given, and writes nothing when it says so already. Answers the id of
-- what was written. With only_new one that exists is left alone. is_enabled is an operator's, unless it is given.
WITH wanted AS (
    SELECT w.* FROM jsonb_populate_record(NULL::rota.schedules, %(columns)s::text::jsonb) w
)
INSERT INTO rota.schedules AS stored (tenant, name,
    job, description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
    start_at, end_at, max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds,
    overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, delete_when_finished, payload, queue, priority,
    max_attempts, timeout_seconds, run_tags, run_metadata, is_enabled)
SELECT %(tenant)s::text, %(name)s::text,
    w.job, w.description, w.tags, w.metadata, w.cron, w.interval_seconds, w.run_at, w.init, w.has_seconds, w.timezone, w.gap,
    w.fold, w.every_from, w.start_at, w.end_at, w.max_runs, w.jitter_seconds, w.calendar, w.on_closed, w.catch_up,
    w.catch_up_seconds, w.catch_up_limit, w.grace_seconds, w.overlap, w.max_concurrent_runs, w.pause_after_failures, w.requires,
    w.is_shadow, w.delete_when_finished, w.payload, w.queue, w.priority, w.max_attempts, w.timeout_seconds, w.run_tags,
    w.run_metadata,
    coalesce(w.is_enabled, true)
FROM wanted w
ON CONFLICT (tenant, name) DO UPDATE SET
    job = excluded.job, description = excluded.description, tags = excluded.tags, metadata = excluded.metadata, cron = excluded.cron,
    interval_seconds = excluded.interval_seconds, run_at = excluded.run_at, init = excluded.init, has_seconds = excluded.has_seconds,
    timezone = excluded.timezone, gap = excluded.gap, fold = excluded.fold, every_from = excluded.every_from, start_at = excluded.start_at,
    end_at = excluded.end_at, max_runs = excluded.max_runs, jitter_seconds = excluded.jitter_seconds, calendar = excluded.calendar,
    on_closed = excluded.on_closed, catch_up = excluded.catch_up, catch_up_seconds = excluded.catch_up_seconds,
    catch_up_limit = excluded.catch_up_limit, grace_seconds = excluded.grace_seconds, overlap = excluded.overlap,
    max_concurrent_runs = excluded.max_concurrent_runs, pause_after_failures = excluded.pause_after_failures,
    requires = excluded.requires, is_shadow = excluded.is_shadow, delete_when_finished = excluded.delete_when_finished,
    payload = excluded.payload, queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts,
    timeout_seconds = excluded.timeout_seconds, run_tags = excluded.run_tags, run_metadata = excluded.run_metadata,
    is_enabled = coalesce((SELECT w.is_enabled FROM wanted w), stored.is_enabled)
WHERE NOT %(only_new)s::boolean AND (
    stored.job, stored.description, stored.tags, stored.metadata, stored.cron, stored.interval_seconds, stored.run_at,
    stored.init, stored.has_seconds, stored.timezone, stored.gap, stored.fold, stored.every_from, stored.start_at, stored.end_at,
    stored.max_runs, stored.jitter_seconds, stored.calendar, stored.on_closed, stored.catch_up, stored.catch_up_seconds,
    stored.catch_up_limit, stored.grace_seconds, stored.overlap, stored.max_concurrent_runs, stored.pause_after_failures,
    stored.requires, stored.is_shadow, stored.delete_when_finished, stored.payload, stored.queue, stored.priority,
    stored.max_attempts, stored.timeout_seconds, stored.run_tags, stored.run_metadata, stored.is_enabled
) IS DISTINCT FROM (
    excluded.job, excluded.description, excluded.tags, excluded.metadata, excluded.cron, excluded.interval_seconds,
    excluded.run_at, excluded.init, excluded.has_seconds, excluded.timezone, excluded.gap, excluded.fold, excluded.every_from,
    excluded.start_at, excluded.end_at, excluded.max_runs, excluded.jitter_seconds, excluded.calendar, excluded.on_closed,
    excluded.catch_up, excluded.catch_up_seconds, excluded.catch_up_limit, excluded.grace_seconds, excluded.overlap,
    excluded.max_concurrent_runs, excluded.pause_after_failures, excluded.requires, excluded.is_shadow,
    excluded.delete_when_finished, excluded.payload, excluded.queue, excluded.priority, excluded.max_attempts,
    excluded.timeout_seconds, excluded.run_tags, excluded.run_metadata,
    coalesce((SELECT w.is_enabled FROM wanted w), stored.is_enabled)
)
RETURNING id
