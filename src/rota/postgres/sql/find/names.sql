-- Jobs, schedules, queues and workers whose name holds a text: the same first, then those that begin with it; so many of each at most.
WITH named AS (
    SELECT 'job' AS kind, j.name, '' AS tenant, j.name AS text, j.queue AS detail,
           CASE WHEN j.deleted_from_code_at IS NOT NULL THEN 'gone' WHEN NOT j.is_enabled THEN 'disabled' ELSE '' END AS state
    FROM rota.jobs j
    UNION ALL
    SELECT 'schedule', s.name, s.tenant, s.name, s.job,
           CASE WHEN t.finished_at IS NOT NULL THEN 'finished' WHEN t.parked_at IS NOT NULL THEN 'parked' WHEN NOT s.is_enabled THEN 'disabled'
                WHEN s.paused_at IS NOT NULL THEN 'paused'
                WHEN EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job AND j.deleted_from_code_at IS NOT NULL) THEN 'orphaned' ELSE 'active' END
    FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
    UNION ALL
    SELECT 'queue', q.name, '', q.name, '', CASE WHEN p.name IS NULL THEN 'active' ELSE 'paused' END
    FROM (SELECT name FROM rota.queues UNION SELECT queue FROM rota.jobs UNION SELECT queue FROM rota.depths) q
    LEFT JOIN rota.queues p ON p.name = q.name AND rota.queue_is_paused(p)
    UNION ALL
    SELECT 'worker', w.id::text, '', w.name, w.host, w.state FROM rota.workers w
), ranked AS (
    SELECT n.*, CASE WHEN n.name = %(text)s::text THEN 0 WHEN lower(n.text) = lower(%(text)s::text) THEN 1
                     WHEN starts_with(lower(n.text), lower(%(text)s::text)) THEN 2 ELSE 3 END + CASE WHEN n.state = 'gone' THEN 10 ELSE 0 END AS rank
    FROM named n
    WHERE n.name = %(text)s::text OR strpos(lower(n.text), lower(%(text)s::text)) > 0
), numbered AS (
    SELECT r.*, row_number() OVER (PARTITION BY r.kind ORDER BY r.rank, r.text, r.tenant) AS n FROM ranked r
)
SELECT kind, name, tenant, text, detail, state, rank FROM numbered WHERE n <= %(limit)s::integer
ORDER BY array_position(ARRAY['schedule', 'job', 'queue', 'worker'], kind), n
