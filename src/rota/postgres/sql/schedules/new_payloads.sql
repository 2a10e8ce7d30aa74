-- Which of these declared schedules get another job or payload than their code has said before. A build that is not the newest changes none.
SELECT w.tenant, w.name
FROM unnest(%(tenants)s::text[], %(names)s::text[], %(jobs)s::text[], %(payloads)s::text[]) AS w (tenant, name, job, payload)
LEFT JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name
WHERE s.id IS NULL OR (rota.is_newest(%(application)s::text, %(build)s::text)
    AND (s.job, nullif(s.code -> 'payload', 'null')) IS DISTINCT FROM (rota.present_name(w.job), w.payload::jsonb))
