-- When something was last counted, and how often it has been in all.
SELECT c.name, c.labels ->> 'loop' AS loop, sum(c.amount)::bigint AS amount,
       extract(epoch FROM clock_timestamp() - max(c.at))::double precision AS age
FROM rota.all_counts c
WHERE c.name IN ('ticks', 'loop_errors', 'lines_dropped', 'late_ends') AND c.amount > 0
GROUP BY 1, 2
