-- Writes the definitions that differ from what is stored, in the order of names so that two
-- starting processes cannot deadlock, and nothing at all when none differs. The largest payload
-- goes along, because enqueues by plain SQL are held to it too.
WITH limits AS (
    UPDATE rota.settings SET payload_bytes = %(payload_bytes)s::integer
    WHERE payload_bytes <> %(payload_bytes)s::integer
), wanted AS (
    SELECT w.name, w.description, w.queue, w.priority, w.max_attempts, w.timeout_seconds, w.backoff,
           w.executor, w.payload_schema, w.metadata, w.source,
           ARRAY(SELECT jsonb_array_elements_text(w.tags)) AS tags
    FROM jsonb_to_recordset(%(jobs)s::text::jsonb) AS w (
        name text, description text, queue text, priority smallint, max_attempts smallint,
        timeout_seconds real, backoff jsonb, executor text, payload_schema jsonb, tags jsonb,
        metadata jsonb, source text)
)
INSERT INTO rota.jobs AS stored (name, description, queue, priority, max_attempts, timeout_seconds,
    backoff, executor, payload_schema, tags, metadata, source)
SELECT w.name, w.description, w.queue, w.priority, w.max_attempts, w.timeout_seconds,
    w.backoff, w.executor, w.payload_schema, w.tags, w.metadata, w.source
FROM wanted w LEFT JOIN rota.jobs j ON j.name = w.name
WHERE j.name IS NULL
   OR (j.description, j.queue, j.priority, j.max_attempts, j.timeout_seconds, j.backoff, j.executor,
       j.payload_schema, j.tags, j.metadata, j.source)
      IS DISTINCT FROM
      (w.description, w.queue, w.priority, w.max_attempts, w.timeout_seconds, w.backoff, w.executor,
       w.payload_schema, w.tags, w.metadata, w.source)
ORDER BY w.name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET
    description = excluded.description, queue = excluded.queue, priority = excluded.priority,
    max_attempts = excluded.max_attempts, timeout_seconds = excluded.timeout_seconds,
    backoff = excluded.backoff, executor = excluded.executor,
    payload_schema = excluded.payload_schema, tags = excluded.tags, metadata = excluded.metadata,
    source = excluded.source, updated_at = rota.now()
RETURNING name
