SELECT rota.refuse_hook(%(hook)s::text, %(reason)s::text, %(address)s::text)
