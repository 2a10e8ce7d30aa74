SELECT rota.configure_retention(%(wanted)s::text::jsonb) AS is_changed
