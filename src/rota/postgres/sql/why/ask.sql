SELECT code, sentence, since, until, by_whom, next_step, command, facts, is_past, kind_found, name, also, rota.now() AS at
FROM rota.why(subject => %(subject)s::text, kind => %(kind)s::text, tenant => %(tenant)s::text) ORDER BY place
