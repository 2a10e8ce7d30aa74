SELECT p.rule, p.table_name, p.matching FROM rota.plan_cleanup(%(payload)s::text::jsonb) p
