-- Jobs with runs that are held because no live worker accepts their payloads, and what the oldest one was refused for. Counts end at 10,000.
SELECT r.job, count(*) AS runs, min(r.held_at) AS since, rota.refusal_words((array_agg(r.id ORDER BY r.held_at, r.id))[1]) AS reason
FROM (SELECT o.job, o.id, o.held_at FROM rota.open_runs o WHERE o.held_by = 'payload' LIMIT 10000) r
GROUP BY r.job ORDER BY runs DESC, r.job LIMIT 1000
