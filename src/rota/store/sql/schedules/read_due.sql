-- As text: read straight into a model, without a detour over dictionaries.
SELECT schedule::text, clock, unfinished, CASE WHEN NOT is_job_enabled THEN rota.job_refusal(schedule ->> 'job') END,
       calendar_definition
FROM rota.read_due(ids => %(ids)s::bigint[])
