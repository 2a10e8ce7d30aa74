-- The common case: no option but a queue or a priority.
SELECT rota.enqueue_plain(
    job => %(job)s::text,
    payload => %(payload)s::text::jsonb,
    queue => %(queue)s::text,
    priority => %(priority)s::integer,
    triggered_by => %(triggered_by)s::text::jsonb,
    validated_by => %(validated_by)s::integer) AS run_id, false AS is_duplicate
