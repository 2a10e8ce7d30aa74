-- As before (0055). OFFSET 0: the clock is read once, and not several times for each of ten thousand groups.
CREATE OR REPLACE VIEW rota.errors AS
SELECT g.id, g.error_type, g.error, g.file, g.line, g.function, g.is_system, g.first_seen_at, g.last_seen_at, g.failures, g.runs, g.last_run_id,
       CASE WHEN h.handled_at >= g.last_seen_at THEN 'handled'
            WHEN g.last_seen_at < n.now - interval '7 days' THEN 'quiet'
            WHEN h.handled_at IS NOT NULL OR g.returned_at > n.now - interval '7 days' THEN 'back'
            WHEN g.first_seen_at > n.now - interval '1 day' THEN 'new'
            ELSE 'known' END AS standing,
       g.returned_at, g.quiet_since, h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.error_groups g CROSS JOIN (SELECT rota.now() AS now OFFSET 0) n LEFT JOIN rota.handled_errors h ON h.error_group = g.id;
