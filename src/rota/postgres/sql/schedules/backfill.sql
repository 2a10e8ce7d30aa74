SELECT rota.backfill_schedule(
    %(name)s::text, times => %(times)s::timestamptz[], since => %(since)s::timestamptz[], starts => %(starts)s::timestamptz[],
    from_at => %(from_at)s::timestamptz, until_at => %(until_at)s::timestamptz, priority => %(priority)s::integer,
    reason => %(reason)s::text, tenant => %(tenant)s::text, actor => %(actor)s::text,
    backfill => %(backfill)s::bigint, total => %(total)s::integer) AS answer
