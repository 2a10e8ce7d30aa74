-- Index builds of this database only: what other databases of the server build may have the same numbers of tables, where both were
-- copied from one template. The rest is as before (0018).
CREATE OR REPLACE FUNCTION rota.next_log_index(least_bytes bigint) RETURNS TABLE (leftover text, statement text, analysis text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    clock timestamptz := rota.now();
    part  record;
    last  record;
    size  bigint;
    until timestamptz;
BEGIN
    DELETE FROM rota.log_spans s WHERE NOT EXISTS (SELECT FROM rota.log_partitions() p WHERE p.partition = s.partition);
    FOR part IN SELECT * FROM rota.log_partitions() p WHERE p.from_at < clock ORDER BY p.from_at DESC LOOP
        SELECT s.to_at, s.bytes INTO last FROM rota.log_spans s WHERE s.partition = part.partition ORDER BY s.to_at DESC LIMIT 1;
        size := pg_relation_size(part.relation);
        -- Lines come some seconds late; what comes later still is indexed by the insert.
        until := least(clock - interval '1 minute', part.to_at);
        IF size > 0 AND until > coalesce(last.to_at, part.from_at)
           AND (until = part.to_at OR size - coalesce(last.bytes, 0) >= greatest(least_bytes, size / 8)) THEN
            INSERT INTO rota.log_spans VALUES (
                format('%s_words_%s', part.partition, to_char(coalesce(last.to_at, part.from_at) AT TIME ZONE 'UTC', 'HH24MISSUS')),
                part.partition, coalesce(last.to_at, part.from_at), until, size)
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    FOR part IN SELECT s.*, p.relation, s.from_at > p.from_at OR s.to_at < p.to_at AS is_partial
                FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
                WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                                  WHERE i.indrelid = p.relation AND c.relname = s.index_name AND i.indisvalid)
                  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index b WHERE b.datname = current_database() AND b.relid = p.relation)
                ORDER BY s.from_at DESC LIMIT 1 LOOP
        -- An invalid one is what a crash has left, or somebody builds it: the lock of the table tells.
        leftover := (SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', c.oid::regclass) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
                     WHERE i.indrelid = part.relation AND c.relname = part.index_name);
        statement := format('CREATE INDEX CONCURRENTLY %I ON %s USING gin (rota.log_words(message, fields)) WITH (fastupdate = off)',
                            part.index_name, part.relation)
            || CASE WHEN part.is_partial THEN format(' WHERE at >= %L AND at < %L', part.from_at, part.to_at) ELSE '' END;
        -- The planner has to know how rare a word is.
        analysis := format('ANALYZE %s', part.relation);
        RETURN NEXT;
    END LOOP;
END $$;
