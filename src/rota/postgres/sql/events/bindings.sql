SELECT b.pattern, b.job, b.is_pattern, b.filter, j.is_enabled
FROM rota.event_bindings b JOIN rota.jobs j ON j.name = b.job
WHERE (%(event)s::text IS NULL OR %(event)s::text LIKE b.like_pattern OR b.pattern = %(event)s::text)
  AND (%(job)s::text IS NULL OR b.job = %(job)s::text)
ORDER BY b.pattern, b.job
