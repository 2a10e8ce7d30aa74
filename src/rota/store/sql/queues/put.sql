-- What code declares of a queue.
SELECT rota.put_queue(queue => %(queue)s::text, max_waiting => %(max_waiting)s::bigint, when_full => %(when_full)s::text, actor => %(actor)s::text,
                      application => %(application)s::text, build => %(build)s::text) AS is_written
