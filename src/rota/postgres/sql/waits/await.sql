SELECT rota.await_runs(%(channel)s::text, %(ids)s::bigint[]) AS id
