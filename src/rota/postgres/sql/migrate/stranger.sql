-- The owner of the schema, or else of a table or a function in it, unless it is the current role, one that it is a member of, or, as for superusers
-- every role is, a superuser: an owner may put its own code into the place of what is its own. Superusers may own tables and functions anyway.
SELECT owner.rolname, made.is_schema
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL (
    SELECT n.nspowner AS role, true AS is_schema
    UNION SELECT c.relowner, false FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid
    UNION SELECT p.proowner, false FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
) made
JOIN pg_catalog.pg_roles named ON named.oid = made.role
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_roles owner ON owner.oid = CASE named.rolname WHEN 'pg_database_owner' THEN d.datdba ELSE named.oid END
JOIN pg_catalog.pg_roles mine ON mine.rolname = current_user
WHERE n.nspname = %(schema)s::pg_catalog.name AND (made.is_schema OR NOT owner.rolsuper)
  AND NOT CASE WHEN mine.rolsuper THEN owner.rolsuper ELSE pg_catalog.pg_has_role(owner.oid, 'USAGE') END
ORDER BY made.is_schema DESC, owner.rolname LIMIT 1
