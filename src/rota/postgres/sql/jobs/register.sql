-- Tells the database what this process declares; nothing is written when nothing has changed. The largest payload goes
-- along, because enqueues by plain SQL are held to it too.
WITH limits AS (
    UPDATE rota.settings SET payload_bytes = %(payload_bytes)s::integer WHERE payload_bytes <> %(payload_bytes)s::integer
)
SELECT rota.register_jobs(%(application)s::text, %(build)s::text, %(jobs)s::text::jsonb, %(worker)s::bigint, %(names)s::text[], %(forced)s::text[],
                          %(shape)s::text, %(before)s::text, %(release)s::text)
