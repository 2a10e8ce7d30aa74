COPY rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields) FROM STDIN
