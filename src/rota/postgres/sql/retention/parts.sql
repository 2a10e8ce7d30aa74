-- Partitions of the history, the oldest first, with the statements that take them out of it: DETACH CONCURRENTLY, because a
-- plain DROP would make every finish wait behind one reader. A role that does not own them asks functions that may.
SELECT p.parent, p.partition, p.relation, p.from_at, p.to_at, p.state, p.estimated_rows, p.bytes,
       CASE WHEN o.is_owner THEN format('ALTER TABLE rota.%%I DETACH PARTITION rota.%%I CONCURRENTLY', p.parent, p.partition)
            ELSE format('SELECT rota.detach_part(%%L)', p.partition) END AS detach,
       CASE WHEN o.is_owner THEN format('ALTER TABLE rota.%%I DETACH PARTITION rota.%%I FINALIZE', p.parent, p.partition)
            ELSE format('SELECT rota.detach_part(%%L)', p.partition) END AS finalize,
       CASE WHEN o.is_owner THEN format('DROP TABLE IF EXISTS rota.%%I', p.partition)
            ELSE format('SELECT rota.drop_part(%%L)', p.partition) END AS remove
FROM rota.history_parts() p
CROSS JOIN (SELECT pg_has_role(c.relowner, 'USAGE') AS is_owner FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass) o
ORDER BY p.to_at, p.partition
