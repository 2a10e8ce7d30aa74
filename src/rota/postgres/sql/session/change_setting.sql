-- The role is the server's: a pooler may have another name for it.
SELECT format('ALTER ROLE %%I SET %%s = %%L', session_user, %(name)s::text, %(value)s::text)
