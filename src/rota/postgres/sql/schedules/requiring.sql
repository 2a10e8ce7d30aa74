-- Who requires whom, and every name that can be required.
SELECT s.name, s.job, ARRAY(SELECT r ->> 'name' FROM jsonb_path_query(s.requires, '$[*]') r) AS requires
FROM rota.schedules s WHERE s.tenant = %(tenant)s::text
