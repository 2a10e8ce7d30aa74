-- Tables that rows can be removed from, with their columns and those of them that hold a time. Of `names`, if given: tables that are
-- called so, or so after a prefix that ends in an underscore. None whose owner's code would run with the rights of this role.
SELECT n.nspname AS schema, c.relname AS name, format('%%I.%%I', n.nspname, c.relname) AS full_name,
       array_agg(a.attname::text ORDER BY a.attnum) AS columns,
       coalesce(array_agg(a.attname::text ORDER BY a.attnum) FILTER (
           WHERE a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)), '{}') AS times
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\_%%' AND n.nspname <> 'information_schema'
  AND n.oid <> (SELECT own.relnamespace FROM pg_class own WHERE own.oid = 'rota.jobs'::regclass)
  AND (%(names)s::text[] IS NULL OR EXISTS (
      SELECT FROM unnest(%(names)s::text[]) w WHERE c.relname = w OR right(c.relname, length(w) + 1) = '_' || w))
  AND CASE WHEN %(names)s::text[] IS NULL THEN rota.is_trusted(c.relowner) ELSE rota.cleanup_fault(c.oid) IS NULL END
GROUP BY n.nspname, c.relname ORDER BY n.nspname, c.relname LIMIT %(most)s::integer
