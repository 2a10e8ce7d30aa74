-- Which jobs write lines from a queue: those that run nowhere else, and those of whose runs only some are in it. Lines do not say
-- where their run was; of most jobs their name says it.
WITH places AS (
    SELECT s.job, s.queue FROM rota.rollup_spans s WHERE s.span = 'ever' AND s.job <> '' AND s.queue <> ''
    UNION SELECT d.job, d.queue FROM rota.read_depths() d
    UNION SELECT m.job, m.queue FROM rota.rollup_minutes m WHERE m.worker <> 0
    UNION SELECT j.name, j.queue FROM rota.jobs j
)
SELECT p.job, bool_and(p.queue = %(queue)s::text) AS is_sole
FROM places p GROUP BY p.job HAVING bool_or(p.queue = %(queue)s::text)
