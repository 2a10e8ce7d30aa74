-- It does not go on: why, and when it is tried again. Others are not kept waiting.
UPDATE rota.bulk_actions SET error = left(%(error)s::text, 2000), changed_at = rota.now(), next_at = clock_timestamp() + interval '5 seconds'
WHERE id = %(id)s::bigint AND state = 'running'
