-- What an operator has asked for. The payload is in the run. A worker may have ended it already where the caller's connection
-- commits by itself.
SELECT rota.write_audit(
    actor => %(actor)s::text, action => 'run.enqueued', object_type => 'run', object_id => %(run_id)s::bigint::text,
    after => jsonb_build_object('job', %(job)s::text), tenant => coalesce(o.tenant, %(tenant)s::text, '')) IS NULL AS is_written
FROM (SELECT 1) one LEFT JOIN rota.open_runs o ON o.id = %(run_id)s::bigint
