-- The common case, without options: three parameters instead of seventeen.
SELECT run_id, is_duplicate FROM rota.enqueue_run(
    job => %(job)s::text,
    payload => %(payload)s::text::jsonb,
    triggered_by => NULL,
    validated_by => %(validated_by)s::integer)
