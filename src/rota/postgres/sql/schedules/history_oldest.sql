-- The ledger of one schedule (or of those that had a name), the oldest first. `place` is where each row stands: the next page
-- begins after it. Each ledger is read in the order of its index: one that ticks every second has millions of rows.
SELECT o.schedule, o.nominal_at, o.through_at, o.count, o.decision, o.reason, o.claimed_at, o.decided_at, o.decided_by, o.enqueued_at, o.run_id,
       o.backfill_run_id, o.state, o.success, o.duration_ms, o.lateness_ms, rota.listed_text(o.error, %(value_bytes)s::integer) AS error, o.is_moved, o.details, o.backfill_state,
       o.backfill_count, o.backfill_states, jsonb_build_array(o.nominal_at, o.schedule_id) AS place
FROM unnest(%(ids)s::bigint[]) AS i (id) CROSS JOIN LATERAL (
    SELECT * FROM rota.occurrences o
    WHERE o.schedule_id = i.id
      AND (%(before)s::timestamptz IS NULL OR o.nominal_at < %(before)s::timestamptz)
      AND (%(since)s::timestamptz IS NULL OR o.through_at >= %(since)s::timestamptz)
      AND (%(decision)s::text IS NULL OR o.decision = %(decision)s::text)
      AND (%(after)s::jsonb IS NULL OR o.nominal_at >= (%(after)s::jsonb ->> 0)::timestamptz)
      AND (%(after)s::jsonb IS NULL
           OR (o.nominal_at, o.schedule_id) > ((%(after)s::jsonb ->> 0)::timestamptz, (%(after)s::jsonb ->> 1)::bigint))
    ORDER BY o.nominal_at LIMIT %(limit)s::integer
) o
ORDER BY o.nominal_at, o.schedule_id LIMIT %(limit)s::integer
