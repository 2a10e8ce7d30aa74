-- Schedules with their status, by tenant and name, which are the place after which the next page begins.
SELECT s.id, s.tenant, s.name, s.job, v.state, rota.listed_text(s.description, %(value_bytes)s::integer) AS description, s.tags, rota.listed(s.metadata, %(value_bytes)s::integer, '/schedules/{name}') AS metadata, s.cron, s.interval_seconds, s.run_at, s.init,
       s.has_seconds, s.timezone, s.gap, s.fold, s.every_from, s.start_at, s.end_at, s.max_runs, s.jitter_seconds, s.burst_allowed, s.calendar,
       s.on_closed, s.catch_up, s.catch_up_window_seconds, s.catch_up_limit, s.grace_seconds, s.overlap, s.max_concurrent_runs,
       s.pause_after_failures, s.requires, s.is_shadow, s.delete_when_finished, rota.listed(s.payload, %(value_bytes)s::integer, '/schedules/{name}') AS payload, s.queue, s.priority, s.max_attempts,
       s.timeout_seconds, s.run_tags, rota.listed(s.run_metadata, %(value_bytes)s::integer, '/schedules/{name}') AS run_metadata, s.is_enabled, s.paused_at, s.paused_by, s.pause_reason, s.paused_until,
       s.is_system, s.created_at, s.updated_at, s.updated_by, s.version, s.anchor_at, v.next_run_at, t.moved_to, t.finished_at,
       t.parked_at, rota.listed_text(t.error, %(value_bytes)s::integer) AS error, t.run_count, t.failures_in_a_row, t.last_enqueued_at, t.last_run_at, t.last_run_success,
       t.last_success_at, v.total_runs, v.success_rate_percent, v.avg_duration_ms, v.max_duration_ms, v.max_duration_ms_7d,
       jsonb_build_array(s.tenant, s.name) AS place
FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id JOIN rota.schedule_status v ON v.schedule_id = s.id
{schedules/fitting}
  AND (%(after)s::jsonb IS NULL OR (s.tenant, s.name) > (%(after)s::jsonb ->> 0, %(after)s::jsonb ->> 1))
ORDER BY s.tenant, s.name LIMIT %(limit)s::integer
