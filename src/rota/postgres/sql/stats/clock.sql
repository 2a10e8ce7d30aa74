-- Now, and whether there is such a job, by any of its names.
SELECT rota.now() AS at, EXISTS (SELECT FROM rota.jobs j WHERE j.name = ANY (rota.names_of(%(job)s::text))) AS is_job
