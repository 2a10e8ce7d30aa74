SELECT handled_at, handled_by, reason
FROM rota.handling_of(run_id => %(id)s::bigint, error_group => %(group)s::text, finished_at => %(finished_at)s::timestamptz)
