SELECT rota.retry_run(run_id => %(id)s::bigint, payload => %(payload)s::jsonb,
                      delay => make_interval(secs => %(delay)s::double precision),
                      reason => %(reason)s::text, actor => %(actor)s::text)
