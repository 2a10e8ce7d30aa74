-- How many runs waited in each of these queues, by the minutes before the present one.
SELECT queue, (extract(epoch FROM date_trunc('minute', rota.now()) - minute) / 60)::integer AS ago, queued
FROM rota.samples
WHERE queue = ANY(%(queues)s::text[]) AND minute > date_trunc('minute', rota.now()) - make_interval(mins => %(minutes)s::integer)
  AND minute <= date_trunc('minute', rota.now())
