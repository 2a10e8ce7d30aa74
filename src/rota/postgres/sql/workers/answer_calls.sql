SELECT rota.answer_calls(
    for_worker => %(worker)s::bigint, waiting => %(waiting)s::boolean, polling => %(polling)s::boolean,
    own_channel => %(channel)s::text)
