-- What was counted beside attempts: folded, and what has come since. `age` is of the last change.
SELECT c.name, c.labels, sum(c.amount)::bigint AS amount, sum(c.total) AS seconds,
       rota.sum_buckets(c.buckets) FILTER (WHERE c.buckets IS NOT NULL) AS buckets,
       extract(epoch FROM clock_timestamp() - max(c.at))::double precision AS age
FROM rota.all_counts c
GROUP BY c.name, c.labels ORDER BY c.name, c.labels
