-- What each of these jobs fails with most in the last hour or so.
SELECT DISTINCT ON (c.job) c.job, g.error_type || ': ' || g.error AS last_error
FROM rota.error_counts c JOIN rota.error_groups g ON g.id = c.error_group
LEFT JOIN rota.handled h ON h.kind = 'error' AND h.id = g.id
WHERE c.at > rota.now() - interval '70 minutes' AND c.job = ANY (%(jobs)s::text[]) AND (h.handled_at IS NULL OR h.handled_at < g.last_seen_at)
GROUP BY c.job, g.id ORDER BY c.job, sum(c.failures) DESC, g.id
