-- Every name of a job, and the one that it has now.
SELECT n.alias AS name, n.job FROM rota.job_names n UNION ALL SELECT j.name, j.name FROM rota.jobs j
