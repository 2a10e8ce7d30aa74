-- Events of one name, the newest first, where few tenants have any: each is looked up by the key, which leads with the tenant. A name that
-- came once is found without reading all others.
SELECT e.tenant, e.name, e.id, e.at, rota.listed(e.payload, %(value_bytes)s::integer, '/events/{event_id}') AS payload, e.key, e.actor, e.role, e.source, rota.listed(e.metadata, %(value_bytes)s::integer, '/events/{event_id}') AS metadata, e.duplicate_of, coalesce(e.deliveries, '[]') AS deliveries,
       rota.event_outcome(e.deliveries, e.duplicate_of) AS outcome, jsonb_build_array(e.id) AS place
FROM unnest(%(tenants)s::text[]) AS t (tenant)
CROSS JOIN LATERAL (
    SELECT e.* FROM rota.events e
    WHERE e.tenant = t.tenant AND e.name = %(name)s::text
      AND (%(key)s::text IS NULL OR e.key = %(key)s::text)
      AND (%(job)s::text IS NULL OR e.deliveries @> jsonb_build_array(jsonb_build_object('job', %(job)s::text)))
      AND (%(outcome)s::text IS NULL OR rota.event_outcome(e.deliveries, e.duplicate_of) = %(outcome)s::text)
      AND (%(texts)s::text[] IS NULL OR e.name || ' ' || e.payload::text ILIKE ALL (%(texts)s::text[]))
      AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
          SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[], %(not_patterns)s::text[]) x (name, wanted, pattern)
          WHERE CASE x.name
              WHEN 'name' THEN e.name LIKE rota.like_event(x.wanted)
              WHEN 'tenant' THEN e.tenant = x.wanted
              WHEN 'job' THEN e.deliveries @> jsonb_build_array(jsonb_build_object('job', x.wanted))
              WHEN 'key' THEN e.key = x.wanted
              WHEN 'outcome' THEN rota.event_outcome(e.deliveries, e.duplicate_of) = x.wanted
              WHEN 'text' THEN e.name || ' ' || e.payload::text ILIKE x.pattern END))
      AND (%(since)s::timestamptz IS NULL OR e.at >= %(since)s::timestamptz)
      AND (%(until)s::timestamptz IS NULL OR e.at < %(until)s::timestamptz)
      AND (%(after)s::jsonb IS NULL OR e.id < (%(after)s::jsonb ->> 0)::bigint)
    ORDER BY e.id DESC
    LIMIT %(limit)s::integer) e
ORDER BY e.id DESC
LIMIT %(limit)s::integer
