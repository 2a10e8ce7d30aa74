-- Now, when the open runs were counted last (NULL: never), and whether there is such a job.
SELECT rota.now() AS at, nullif(m.counted_at, '-infinity') + s.clock_offset AS counted_at,
       EXISTS (SELECT FROM rota.jobs j WHERE j.name = %(job)s::text) AS is_job
FROM rota.depth_marks m, rota.settings s
