-- Seconds until one is to go on; NULL: none is.
SELECT extract(epoch FROM min(next_at) - clock_timestamp())::double precision AS seconds FROM rota.bulk_actions WHERE state = 'running'
