-- Of the next so many rows of a ledger, the newest first, those that did not simply run, or that a backfill has filled: one that
-- ticks every second has millions of rows, and a page looks at a part of them.
SELECT o.schedule, o.nominal_at, o.through_at, o.count, o.decision, o.reason, o.claimed_at, o.decided_at, o.decided_by, o.enqueued_at, o.run_id,
       b.backfill_run_id, o.state, o.success, o.duration_ms, o.lateness_ms, rota.listed_text(o.error, %(value_bytes)s::integer) AS error, o.is_moved, o.details, rota.run_state(b.backfill_run_id) AS backfill_state,
       b.backfill_count, CASE WHEN b.backfill_count > 0 THEN rota.backfill_states(o.schedule_id, o.nominal_at, o.through_at) END AS backfill_states,
       jsonb_build_array(o.nominal_at, o.schedule_id) AS place
FROM unnest(%(ids)s::bigint[]) AS i (id) CROSS JOIN LATERAL (
    SELECT * FROM rota.ledger l
    WHERE l.schedule_id = i.id
      AND (%(before)s::timestamptz IS NULL OR l.nominal_at < %(before)s::timestamptz)
      AND (%(since)s::timestamptz IS NULL OR l.through_at >= %(since)s::timestamptz)
      AND (%(after)s::jsonb IS NULL OR l.nominal_at <= (%(after)s::jsonb ->> 0)::timestamptz)
      AND (%(after)s::jsonb IS NULL
           OR (l.nominal_at, l.schedule_id) < ((%(after)s::jsonb ->> 0)::timestamptz, (%(after)s::jsonb ->> 1)::bigint))
    ORDER BY l.nominal_at DESC LIMIT %(most)s::integer
) o
CROSS JOIN LATERAL (
    SELECT max(t.run_id) AS backfill_run_id, count(DISTINCT t.nominal_at) AS backfill_count FROM rota.backfill_times t
    WHERE t.schedule_id = o.schedule_id AND t.nominal_at >= o.nominal_at AND t.nominal_at <= o.through_at
) b
WHERE (%(only)s::text = 'exceptions' AND o.decision <> 'ran') OR (%(only)s::text = 'backfilled' AND b.backfill_run_id IS NOT NULL)
ORDER BY o.nominal_at DESC, o.schedule_id DESC LIMIT %(limit)s::integer
