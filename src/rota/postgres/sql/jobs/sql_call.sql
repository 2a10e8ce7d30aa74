SELECT call, transaction_mode, is_answering, settle, run_as, state FROM rota.sql_job_call(%(job)s::text)
