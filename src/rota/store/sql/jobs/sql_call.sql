SELECT call, transaction_mode, is_answering FROM rota.sql_job_call(%(job)s::text)
