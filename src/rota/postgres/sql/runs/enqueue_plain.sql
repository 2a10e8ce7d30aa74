-- The common case: no option but a queue or a priority. A run that is new has the last number of this session.
SELECT p.run_id, p.run_id <> pg_catalog.currval('rota.run_ids'::pg_catalog.regclass) AS is_duplicate FROM (SELECT rota.enqueue_plain(
    job => %(job)s::text,
    payload => %(payload)s::text::jsonb,
    queue => %(queue)s::text,
    priority => %(priority)s::integer,
    triggered_by => %(triggered_by)s::text::jsonb,
    validated_by => %(validated_by)s::integer) AS run_id OFFSET 0) p
