-- A table by its name, with its schema; nothing where there is none.
SELECT format('%%I.%%I', n.nspname, c.relname) AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = rota.table_of(%(name)s::text)
