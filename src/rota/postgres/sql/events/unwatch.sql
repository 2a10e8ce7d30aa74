SELECT rota.unwatch_table(%(table)s::text, watch => %(watch)s::bigint, actor => %(actor)s::text, reason => %(reason)s::text) AS ids
