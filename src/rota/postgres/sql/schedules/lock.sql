-- For an edit: nobody else changes it meanwhile.
SELECT s.id FROM rota.schedules s WHERE s.tenant = %(tenant)s::text AND s.name = %(name)s::text FOR UPDATE
