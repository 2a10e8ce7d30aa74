SELECT r.rolname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE c.oid = pg_catalog.to_regclass('rota.jobs') AND r.rolsuper
