-- What upkeep does when it goes round: the oldest minute that is not folded, the last count of what waits, the last pass of retention.
SELECT extract(epoch FROM rota.now() - (SELECT min(m.minute) FROM rota.rollup_minutes m WHERE m.worker <> 0))::double precision AS unfolded_seconds,
       extract(epoch FROM clock_timestamp() - (SELECT m.counted_at FROM rota.count_marks m WHERE m.name = 'depths' AND m.counted_at > '2000-01-02'))::double precision AS counted_seconds,
       r.finished_at AS pruned_at, r.state AS pruned, extract(epoch FROM rota.now() - r.finished_at)::double precision AS pruned_seconds,
       extract(epoch FROM rota.now() - (SELECT min(g.applied_at) FROM rota.migrations g))::double precision AS installed_seconds
FROM (SELECT 1) one LEFT JOIN LATERAL (
    SELECT e.finished_at, e.state FROM rota.ended_runs e WHERE e.job = 'rota' || '.prune_runs' ORDER BY e.finished_at DESC LIMIT 1) r ON true
