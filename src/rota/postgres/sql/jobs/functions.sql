SELECT function_name, arguments, kind, transaction_mode, owner, description, jobs FROM rota.job_functions(%(text)s::text)
