SELECT rota.advance_bulk_action(
    action_id => %(id)s::bigint, below_id => %(below_id)s::bigint, done => %(done)s::integer, skipped => %(skipped)s::integer,
    failed => %(failed)s::integer, held => %(held)s::bigint[], held_tries => %(held_tries)s::integer, problems => %(problems)s::text::jsonb,
    counted => %(counted)s::bigint, counted_below => %(counted_below)s::bigint, is_over => %(is_over)s::boolean,
    pause_seconds => %(pause)s::double precision)
