-- All attempts that ever ended, as metrics/attempts, without durations: cheap enough to ask twice a second.
SELECT r.job, r.queue, r.outcome, sum(r.attempts)::bigint AS attempts
FROM (SELECT s.job, s.queue, s.outcome, s.attempts FROM rota.rollup_spans s WHERE s.span = 'ever' AND s.job <> ''
      UNION ALL SELECT m.job, m.queue, m.outcome, m.attempts FROM rota.rollup_minutes m WHERE m.worker <> 0) r
GROUP BY r.job, r.queue, r.outcome
