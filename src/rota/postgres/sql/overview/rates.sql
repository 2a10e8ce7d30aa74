-- Attempts that ended in each queue, a second, over the last minute and what has passed of this one.
SELECT queue, sum(attempts)::double precision / (60 + extract(second FROM rota.now()))::double precision AS per_second
FROM rota.rollup_minutes
WHERE minute >= date_trunc('minute', rota.now()) - interval '1 minute' AND outcome <> 'snoozed'
GROUP BY queue
