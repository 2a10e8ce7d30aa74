-- As text: read straight into a model, without a detour over dictionaries, and one that cannot be read spoils no other.
SELECT schedule::text, clock, unfinished, CASE WHEN NOT is_job_enabled THEN rota.job_refusal(schedule ->> 'job') END,
       calendar_definition::text,
       CASE WHEN unfinished > 0 AND schedule ->> 'catch_up' = 'all' THEN rota.count_made_up((schedule ->> 'id')::bigint) ELSE 0 END,
       CASE WHEN unfinished > 0 AND schedule ->> 'every_from' = 'end' THEN rota.count_triggered((schedule ->> 'id')::bigint) ELSE 0 END,
       place, crowd,
       (SELECT s.capped_queues <> '{}' FROM rota.settings s) AND rota.has_full_queue((schedule ->> 'id')::bigint)
FROM rota.read_due(ids => %(ids)s::bigint[]) d
LEFT JOIN rota.take_places(ids => CASE WHEN %(spreads)s::boolean THEN %(ids)s::bigint[] ELSE '{}' END, free => %(free)s::integer) p
       ON p.id = (d.schedule ->> 'id')::bigint
