-- Who keeps ticks from saying what they think about.
SELECT h.pid, h.since, h.query FROM rota.locks l CROSS JOIN LATERAL rota.row_holder(l.xmax) h WHERE l.name = 'hold_due'
