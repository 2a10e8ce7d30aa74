-- Jobs with a policy, or all. What a job left under an earlier name is kept as its runs are.
SELECT w.name, j.retention FROM rota.jobs j
CROSS JOIN LATERAL (SELECT j.name UNION ALL SELECT n.alias FROM rota.job_names n WHERE n.job = j.name) AS w (name)
WHERE %(is_all)s::boolean OR j.retention IS NOT NULL ORDER BY 1
