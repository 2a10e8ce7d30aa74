-- Refuses an edit of what somebody has changed meanwhile, and keeps it as it is until the edit is written.
SELECT rota.expect_version(%(kind)s::text, %(name)s::text, %(version)s::bigint, %(tenant)s::text)
