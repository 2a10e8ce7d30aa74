SELECT run_id, attempt, worker, decision FROM rota.rescue_runs(max_runs => %(limit)s::integer, everywhere => %(everywhere)s::boolean)
