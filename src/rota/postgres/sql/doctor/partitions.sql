-- How far ahead each table has its partitions; the one that ends first.
SELECT p.parent AS name, extract(epoch FROM max(b.until) - rota.now())::double precision AS seconds
FROM rota.partitioned p
JOIN pg_inherits i ON i.inhparent = to_regclass(format('rota.%%I', p.parent))
JOIN pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS until) b
GROUP BY p.parent ORDER BY 2, 1 LIMIT 1
