SELECT call, transaction_mode, is_answering, settle FROM rota.sql_job_call(%(job)s::text)
