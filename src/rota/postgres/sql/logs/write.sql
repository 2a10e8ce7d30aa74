COPY rota.logs (level, job, tenant, at, run_id, worker, attempt, seq, message, fields) FROM STDIN (FORMAT binary)
