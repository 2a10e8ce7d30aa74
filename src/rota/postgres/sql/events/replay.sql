SELECT r.events, r.started, r.joined, r.delivered_before, r.filtered, r.held
FROM rota.replay_events(%(job)s::text, event => %(event)s::text, ids => %(ids)s::bigint[], since => %(since)s::timestamptz,
    until => %(until)s::timestamptz, tenant => %(tenant)s::text, again => %(again)s::boolean, dry_run => %(dry_run)s::boolean,
    reason => %(reason)s::text, actor => %(actor)s::text) r
