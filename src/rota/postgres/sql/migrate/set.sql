SELECT set_config(%(name)s, %(value)s, true)
