SELECT last_at, removed FROM rota.prune_lines(%(job)s::text, coalesce(%(after_at)s::timestamptz, '-infinity'), %(before_at)s::timestamptz,
                                              %(spare_failed)s::boolean, %(limit)s::integer)
