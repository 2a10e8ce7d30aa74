-- Tables of the schema that a publication covers and that have nothing to name a row by: the server refuses to update them
-- and to delete from them. A publication names partitions or, if it publishes by their root, what they belong to.
SELECT c.relname AS name, min(p.pubname) AS publication
FROM pg_class own
JOIN pg_class c ON c.relnamespace = own.relnamespace AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
JOIN pg_publication p ON p.pubupdate OR p.pubdelete
WHERE own.oid = 'rota.jobs'::regclass
  AND CASE c.relreplident WHEN 'f' THEN false WHEN 'n' THEN true
      WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
      ELSE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) END
  AND (p.puballtables OR EXISTS (
      SELECT FROM pg_publication_tables t
      WHERE t.pubname = p.pubname AND (format('%%I.%%I', t.schemaname, t.tablename)::regclass = c.oid
          OR format('%%I.%%I', t.schemaname, t.tablename)::regclass IN (SELECT pg_partition_ancestors(c.oid)))))
GROUP BY c.relname ORDER BY c.relname
