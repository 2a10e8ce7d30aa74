-- What an operator has asked for, as it was stored: with what the job has added. A worker may have ended it already where the
-- caller's connection commits by itself.
SELECT rota.write_audit(
    actor => %(actor)s::text, action => 'run.enqueued', object_type => 'run', object_id => %(run_id)s::bigint::text,
    after => jsonb_strip_nulls(jsonb_build_object('job', %(job)s::text, 'payload', o.payload)),
    tenant => coalesce(o.tenant, %(tenant)s::text, '')) IS NULL AS is_written
FROM (SELECT 1) one LEFT JOIN rota.open_runs o ON o.id = %(run_id)s::bigint
