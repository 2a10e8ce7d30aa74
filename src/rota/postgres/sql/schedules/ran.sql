-- Nominal times of a range that have had a run, by the tick or by a backfill.
SELECT l.nominal_at FROM rota.ledger l
WHERE l.schedule_id = %(id)s::bigint AND l.nominal_at BETWEEN %(from_at)s::timestamptz AND %(until_at)s::timestamptz
  AND l.run_id IS NOT NULL
UNION
SELECT b.nominal_at FROM rota.backfill_times b
WHERE b.schedule_id = %(id)s::bigint AND b.nominal_at BETWEEN %(from_at)s::timestamptz AND %(until_at)s::timestamptz
