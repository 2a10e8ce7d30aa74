-- An id below which every run was created before the instant. A minute off, because a mark takes
-- its time and its id one after the other.
SELECT max(id) AS id FROM rota.id_marks WHERE at <= %(at)s::timestamptz - interval '1 minute'
