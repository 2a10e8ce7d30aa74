-- Which of these payloads their jobs would not take, by their places from 1. NULL stands for the job's default one.
SELECT w.n::integer AS place, rota.new_payload_problem(j, w.payload::jsonb) AS problem
FROM unnest(%(jobs)s::text[], %(payloads)s::text[]) WITH ORDINALITY AS w (job, payload, n)
JOIN rota.jobs j ON j.name = rota.present_name(w.job)
ORDER BY w.n
