-- The call makes promoters look at once, instead of when they would have by the old clock.
SELECT rota.set_clock(%(at)s::timestamptz) AS now, pg_notify('rota', 'due')
