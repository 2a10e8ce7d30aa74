-- Who slept under this number does not any more: it has another one now, or has ended.
UPDATE rota.workers SET asleep_until = NULL WHERE id = %(worker)s::bigint AND asleep_until IS NOT NULL
