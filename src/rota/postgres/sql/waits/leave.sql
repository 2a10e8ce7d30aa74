DELETE FROM rota.waits WHERE run_id = ANY (%(ids)s::bigint[]) AND channel = %(channel)s::text
