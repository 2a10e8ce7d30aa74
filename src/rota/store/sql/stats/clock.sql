-- Now, and whether there is such a job.
SELECT rota.now() AS at, EXISTS (SELECT FROM rota.jobs j WHERE j.name = %(job)s::text) AS is_job
