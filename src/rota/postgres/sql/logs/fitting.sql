(%(jobs)s::text[] IS NULL OR l.job = ANY (%(jobs)s::text[]))
  AND (%(levels)s::text[] IS NULL OR l.level = ANY (%(levels)s::text[]))
  AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s::text)
  AND (%(worker)s::bigint IS NULL OR l.worker = %(worker)s::bigint)
  AND (%(queue)s::text IS NULL OR l.job = ANY (%(sole)s::text[])
       OR (l.job = ANY (%(mixed)s::text[]) AND EXISTS (SELECT FROM rota.runs r WHERE r.id = l.run_id AND r.queue = %(queue)s::text)))
  AND (%(attempt)s::integer IS NULL OR l.attempt = %(attempt)s::integer)
  AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[]) x (name, wanted)
      WHERE CASE x.name
          WHEN 'level' THEN l.level = x.wanted
          WHEN 'job' THEN l.job = ANY ((SELECT rota.names_of(x.wanted))::text[])
          WHEN 'run' THEN l.run_id = x.wanted::bigint
          WHEN 'attempt' THEN l.attempt = x.wanted::integer
          WHEN 'worker' THEN l.worker = x.wanted::bigint
          WHEN 'tenant' THEN l.tenant = x.wanted
          WHEN 'queue' THEN EXISTS (SELECT FROM rota.runs r WHERE r.id = l.run_id AND r.queue = x.wanted) END))
  AND (%(hints)s::text[] = '{}' OR lower(l.message || ' ' || coalesce(l.fields::text, '')) LIKE ALL (%(hints)s::text[]))
  AND (%(query)s::text IS NULL
       OR (%(strangers)s::text[] <> '{}' AND NOT lower(l.message || ' ' || coalesce(l.fields::text, '')) LIKE ANY (%(strangers)s::text[]))
       OR rota.line_words(l.message, l.fields) @@ %(query)s::text::tsquery)
  AND (%(names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(names)s::text[], %(values)s::text[]) f (name, value)
      WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) IS DISTINCT FROM f.value))
  AND (%(other_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(other_names)s::text[], %(other_values)s::text[]) f (name, value)
      WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) = f.value))
