SELECT rota.caller_state(%(role)s::text)
