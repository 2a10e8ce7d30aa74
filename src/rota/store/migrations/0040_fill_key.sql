-- Fields of a key are filled in one after the other from the template, not from what the last one left.
CREATE OR REPLACE FUNCTION rota.fill_key(template text, payload jsonb, job text, queue text, tenant text, schedule text)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fixed  text[] := regexp_split_to_array(template, '\{[^}]+\}');
    filled text := fixed[1];
    field  text;
    place  bigint;
BEGIN
    FOR field, place IN SELECT f.match[1], f.place
        FROM regexp_matches(template, '\{([^}]+)\}', 'g') WITH ORDINALITY AS f(match, place) ORDER BY f.place LOOP
        filled := filled || coalesce(CASE field
            WHEN 'tenant' THEN tenant WHEN 'queue' THEN queue WHEN 'job' THEN job WHEN 'schedule' THEN schedule
            ELSE payload #>> string_to_array(field, '.') END, '') || fixed[place + 1];
    END LOOP;
    RETURN CASE WHEN length(filled) > 200 THEN left(filled, 160) || '…' || md5(filled) ELSE filled END;
END $$;
