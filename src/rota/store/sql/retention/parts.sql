-- Partitions of the history, the oldest first, with the statements that take them out of it: DETACH … CONCURRENTLY, because a
-- plain DROP would make every finish wait behind one reader.
SELECT p.parent, p.partition, p.relation, p.from_at, p.to_at, p.state, p.estimated_rows, p.bytes,
       format('ALTER TABLE rota.%%I DETACH PARTITION rota.%%I CONCURRENTLY', p.parent, p.partition) AS detach,
       format('ALTER TABLE rota.%%I DETACH PARTITION rota.%%I FINALIZE', p.parent, p.partition) AS finalize,
       format('DROP TABLE IF EXISTS rota.%%I', p.partition) AS remove,
       format('SELECT EXISTS (SELECT FROM rota.%%I) AS is_so', p.partition) AS has_rows
FROM rota.history_parts() p ORDER BY p.to_at, p.partition
