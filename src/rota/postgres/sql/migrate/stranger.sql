-- The owner of the schema, unless it is the current role, one that it is a member of, or, as for superusers every role is, a superuser: an owner
-- may put its own code into the place of every table and function.
SELECT owner.rolname
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_roles named ON named.oid = n.nspowner
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_roles owner ON owner.oid = CASE named.rolname WHEN 'pg_database_owner' THEN d.datdba ELSE named.oid END
JOIN pg_catalog.pg_roles mine ON mine.rolname = current_user
WHERE n.nspname = %(schema)s::pg_catalog.name
  AND NOT CASE WHEN mine.rolsuper THEN owner.rolsuper ELSE pg_catalog.pg_has_role(owner.oid, 'USAGE') END
