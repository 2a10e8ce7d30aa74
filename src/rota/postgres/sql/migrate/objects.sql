-- The functions, views and triggers that there are, and the statements that give each its present rights again.
WITH own AS (
    SELECT c.relnamespace AS id, quote_ident(n.nspname) AS name FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'rota.migrations'::regclass
), object AS (
    SELECT 'function ' || p.proname AS key, format('FUNCTION %%s.%%I', own.name, p.proname) AS target, p.proacl AS acl
    FROM pg_proc p JOIN own ON own.id = p.pronamespace
    UNION ALL
    SELECT 'view ' || c.relname, format('%%s.%%I', own.name, c.relname), c.relacl
    FROM pg_class c JOIN own ON own.id = c.relnamespace WHERE c.relkind = 'v'
    UNION ALL
    SELECT format('trigger %%s.%%s', c.relname, t.tgname), NULL, NULL
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN own ON own.id = c.relnamespace WHERE NOT t.tgisinternal
)
SELECT o.key, CASE WHEN o.acl IS NULL THEN '{}' ELSE
    ARRAY[format('REVOKE ALL ON %%s FROM PUBLIC', o.target)] || ARRAY(
        SELECT format('GRANT %%s ON %%s TO %%s%%s', a.privilege_type, o.target,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM aclexplode(o.acl) a)
    END AS rights
FROM object o
