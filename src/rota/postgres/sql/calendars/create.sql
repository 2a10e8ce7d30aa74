INSERT INTO rota.calendars (name, description, definition)
VALUES (%(name)s::text, %(description)s::text, %(definition)s::text::jsonb) ON CONFLICT (name) DO NOTHING RETURNING name
