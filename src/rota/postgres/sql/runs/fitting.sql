WHERE id > %(low)s::bigint AND id <= %(high)s::bigint
  -- Nothing created later than this can have ended before: spares partitions.
  AND (%(ended_after)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at >= %(ended_after)s::timestamptz)
  -- What has ended is among the open ones only if it expired.
  AND (NOT %(are_ended)s::boolean OR is_ended OR (%(with_expired)s::boolean AND expires_at <= rota.now()))
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  -- A renamed job has runs under each of its names.
  AND (%(job)s::text IS NULL OR job = %(job)s::text OR job = ANY (ARRAY(SELECT rota.other_names(%(job)s::text))))
  AND (%(system)s::boolean OR queue <> 'rota' || '.system')
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
  AND (%(tag)s::text IS NULL OR %(tag)s::text = ANY (tags))
  AND (%(key)s::text IS NULL OR key = %(key)s::text)
  AND (%(schedule)s::text IS NULL OR schedule = %(schedule)s::text)
  AND (%(worker)s::bigint IS NULL OR worker = %(worker)s::bigint)
  AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s::timestamptz)
  AND (%(ended_since)s::timestamptz IS NULL OR finished_at >= %(ended_since)s::timestamptz)
  AND (%(ended_until)s::timestamptz IS NULL OR finished_at < %(ended_until)s::timestamptz)
  AND (%(error_group)s::text IS NULL OR error_group = %(error_group)s::text)
  -- What succeeded has no error, and what waits after one has its group: spares looking.
  AND (%(error)s::text IS NULL OR ((NOT is_ended OR state <> 'succeeded') AND (is_ended OR error_group IS NOT NULL)
       AND (last_error ILIKE %(error)s::text OR error_group = ANY (%(error_groups)s::text[]))))
  -- Each of the words, wherever it is. A run that waits has the message of its last error only: its type is the group's.
  AND (%(texts)s::text[] IS NULL OR NOT EXISTS (
      SELECT FROM unnest(%(texts)s::text[], %(texts_in_json)s::text[]) w (pattern, in_json)
      WHERE NOT (coalesce(last_error ILIKE w.pattern, false) OR payload::text ILIKE w.in_json
                 OR EXISTS (SELECT FROM rota.error_groups g WHERE g.id = error_group AND g.error_type ILIKE w.pattern))))
  AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[], %(not_patterns)s::text[], %(not_in_json)s::text[])
          x (name, wanted, pattern, in_json)
      WHERE CASE x.name
          WHEN 'state' THEN state = x.wanted
          WHEN 'job' THEN job = x.wanted OR job = ANY (ARRAY(SELECT rota.other_names(x.wanted)))
          WHEN 'queue' THEN queue = x.wanted
          WHEN 'tenant' THEN tenant = x.wanted
          WHEN 'tag' THEN x.wanted = ANY (tags)
          WHEN 'key' THEN key = x.wanted
          WHEN 'schedule' THEN schedule = x.wanted
          WHEN 'worker' THEN worker = x.wanted::bigint
          WHEN 'group' THEN error_group = x.wanted
          WHEN 'payload' THEN coalesce(payload ->> split_part(x.wanted, ':', 1), payload #>> string_to_array(split_part(x.wanted, ':', 1), '.'))
              = substr(x.wanted, strpos(x.wanted, ':') + 1)
          WHEN 'error' THEN last_error ILIKE x.pattern
              OR EXISTS (SELECT FROM rota.error_groups g WHERE g.id = error_group AND g.error_type ILIKE x.pattern)
          WHEN 'text' THEN last_error ILIKE x.pattern OR payload::text ILIKE x.in_json
              OR EXISTS (SELECT FROM rota.error_groups g WHERE g.id = error_group AND g.error_type ILIKE x.pattern) END))
  AND (%(payload_fields)s::jsonb IS NULL OR NOT EXISTS (
      SELECT FROM jsonb_each_text(%(payload_fields)s::jsonb) f
      WHERE coalesce(payload ->> f.key, payload #>> string_to_array(f.key, '.')) IS DISTINCT FROM f.value))
  AND (%(is_handled)s::boolean IS NULL OR EXISTS (SELECT FROM rota.handling_of(id, error_group, finished_at)) = %(is_handled)s::boolean)
  -- For whoever began then: what has ended since is another matter.
  AND (%(begun_at)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at <= %(begun_at)s::timestamptz)
