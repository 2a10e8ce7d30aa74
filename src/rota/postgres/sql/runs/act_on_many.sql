SELECT run_id, answer, refusal, code FROM rota.act_on_runs(
    action => %(action)s::text, ids => %(ids)s::bigint[], payload => %(payload)s::text::jsonb,
    delay => make_interval(secs => %(delay)s::double precision), reason => %(reason)s::text, actor => %(actor)s::text)
