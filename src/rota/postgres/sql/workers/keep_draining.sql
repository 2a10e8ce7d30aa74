-- A worker that lost its lease comes back under a new id; what it was told still holds.
UPDATE rota.workers n
SET drain_requested_at = o.drain_requested_at, drain_requested_by = o.drain_requested_by, drain_reason = o.drain_reason,
    drain_seen_at = o.drain_seen_at, is_to_stop = o.is_to_stop, is_to_hurry = o.is_to_hurry
FROM rota.workers o
WHERE n.id = %(worker)s::bigint AND o.id = %(former)s::bigint AND o.drain_requested_at IS NOT NULL
