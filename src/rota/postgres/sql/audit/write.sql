SELECT rota.write_audit(
    actor => %(actor)s::text, action => %(action)s::text, object_type => %(object_type)s::text, object_id => %(object_id)s::text,
    before => %(before)s::text::jsonb, after => %(after)s::text::jsonb, reason => %(reason)s::text, tenant => coalesce(%(tenant)s::text, ''))
