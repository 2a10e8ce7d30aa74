-- Whether a signature of a job came after another one.
SELECT EXISTS (SELECT FROM rota.signatures s JOIN rota.signatures own ON own.job = s.job AND own.hash = %(own)s::integer
               WHERE s.job = %(job)s::text AND s.hash = %(other)s::integer AND s.declared_at > own.declared_at)
