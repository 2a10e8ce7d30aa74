SELECT next_page, removed FROM rota.prune_log_pages(%(partition)s::text, %(kept_jobs)s::text[], %(from_page)s::bigint, %(pages)s::integer)
