-- As before (0077). Whether there is more is looked up in each queue, and not read from all that is open; what is held waits for nobody
-- who could be called.
CREATE OR REPLACE FUNCTION rota.pass_on(for_worker bigint, queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET lock_timeout = '100ms' SET jit = off AS $$
BEGIN
    UPDATE rota.workers SET is_waiting = false WHERE id = for_worker AND is_waiting;
    PERFORM rota.wake(ARRAY(
        SELECT q.name FROM unnest(pass_on.queues) AS q (name)
        WHERE (SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.queue = q.name AND o.state = 'queued'
               ORDER BY o.queue, o.tenant, o.priority, o.seq LIMIT 1) IS NOT NULL), 2);
END $$;

-- By its index also where the server knows nothing of the table: else every call reads all that wait, and sorts them.
ALTER FUNCTION rota.wake(text[], integer) SET enable_bitmapscan = off;
ALTER FUNCTION rota.wake(text[], integer) SET enable_sort = off;
