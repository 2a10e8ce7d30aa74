-- Partitions for lines that waited long, or whose clock was moved.
SELECT rota.ensure_partitions(%(since)s::timestamptz, %(until)s::timestamptz)
