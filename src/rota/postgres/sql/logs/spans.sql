SELECT from_at, to_at, is_indexed FROM rota.searchable_spans(%(since)s::timestamptz, %(until)s::timestamptz)
