SELECT rota.watch_table(%(table)s::text, operations => %(operations)s::text[], update_of => %(update_of)s::text[], condition => %(condition)s::text,
    columns => %(columns)s::text[], event => %(event)s::text, tenant => %(tenant)s::text, tenant_column => %(tenant_column)s::text,
    actor => %(actor)s::text) AS id
