SELECT w.id, w.tenant, w.table_name, w.event, w.operations, w.update_of, w.columns, w.condition, w.tenant_column, w.created_at, w.created_by, w.drift
FROM rota.watches() w
WHERE (%(id)s::bigint IS NULL OR w.id = %(id)s::bigint)
ORDER BY w.id
