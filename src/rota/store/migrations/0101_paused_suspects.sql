-- A run that is to be run isolated is claimed past the lanes of tenants, so it asks for the pause itself: workers hold it only within a second.
DO $$
DECLARE
    text constant text := pg_get_functiondef('rota.claim_suspect(bigint, text[], text[], text[])'::regprocedure);
    last constant text := 'AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND rota.queue_is_paused(s))';
BEGIN
    IF strpos(text, last) = 0 THEN
        RAISE EXCEPTION 'rota.claim_suspect is not as it was';
    END IF;
    EXECUTE replace(text, last, last || E'\n              '
        'AND NOT EXISTS (SELECT FROM rota.tenants t WHERE t.name = w.tenant AND rota.tenant_is_paused(t))');
END $$;
