-- Who could act as somebody else: the owner of the schema if it is a superuser, whose functions granted roles may call, and schemas in which
-- everybody may create what others' sessions then find.
SELECT pg_get_userbyid(c.relowner) AS owner, r.rolsuper AS is_superuser,
       EXISTS (SELECT FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) g
               WHERE p.pronamespace = c.relnamespace AND p.prosecdef AND p.proowner = c.relowner AND g.grantee <> c.relowner) AS is_granted,
       ARRAY(SELECT n.nspname::text FROM pg_namespace n
             WHERE n.nspname NOT LIKE 'pg\_temp\_%%' AND has_schema_privilege('public', n.oid, 'CREATE') ORDER BY 1) AS open_schemas
FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = 'rota.jobs'::regclass
