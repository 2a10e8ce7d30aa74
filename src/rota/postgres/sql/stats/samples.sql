-- How queues stood in each step: as counted last, the longest wait, and the claims of the step, which are the difference to those
-- of the step before. That one is read too, and left out by whoever asks.
WITH steps AS (
    SELECT date_bin(make_interval(secs => %(step)s::integer), s.minute, %(since)s::timestamptz) AS at,
           (array_agg(s.queued ORDER BY s.minute DESC))[1] AS queued, (array_agg(s.running ORDER BY s.minute DESC))[1] AS running,
           max(s.oldest_seconds) AS oldest_seconds, max(s.pickups) AS pickups, max(s.histogram) AS histogram,
           min(s.pickups) AS first_pickups, min(s.histogram) AS first_histogram
    FROM rota.samples s
    WHERE s.queue = %(queue)s::text AND s.minute < %(until)s::timestamptz
      AND s.minute >= %(since)s::timestamptz - make_interval(secs => %(step)s::integer)
    GROUP BY 1
)
SELECT p.at, p.queued, p.running, p.oldest_seconds, greatest(p.pickups - coalesce(lag(p.pickups) OVER w, p.first_pickups), 0)::bigint AS pickups,
       numeric_send(greatest(p.histogram - coalesce(lag(p.histogram) OVER w, p.first_histogram), 0)) AS histogram
FROM steps p WINDOW w AS (ORDER BY p.at) ORDER BY p.at
