-- The ledger of one schedule (or of those that had a name), the newest first; the next page is that before the last one's nominal_at.
SELECT o.schedule, o.nominal_at, o.through_at, o.count, o.decision, o.reason, o.decided_at, o.decided_by, o.enqueued_at, o.run_id,
       o.backfill_run_id, o.state, o.success, o.duration_ms, o.lateness_ms, o.error, o.is_moved, o.details
FROM rota.occurrences o
WHERE o.schedule_id = ANY (%(ids)s::bigint[])
  AND (%(before)s::timestamptz IS NULL OR o.nominal_at < %(before)s::timestamptz)
  AND (%(since)s::timestamptz IS NULL OR o.through_at >= %(since)s::timestamptz)
  AND (%(decision)s::text IS NULL OR o.decision = %(decision)s::text)
ORDER BY o.nominal_at DESC LIMIT %(limit)s::integer
