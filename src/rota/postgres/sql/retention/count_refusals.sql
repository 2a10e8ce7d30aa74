SELECT count(*) AS rows FROM rota.hook_refusals WHERE minute < %(before_at)s::timestamptz
