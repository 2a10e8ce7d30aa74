-- `logs`: the lines of runs, in partitions by day. Words are searched by GIN indexes that are built in spans behind
-- the writers (`log_spans`, `next_log_index`), because an index that follows every line costs the writers more than
-- it brings.

-- Evidence, accepted after the attempt ended: not fenced by intent.
CREATE TABLE rota.logs (
    at      timestamptz NOT NULL,
    run_id  bigint NOT NULL,
    worker  bigint NOT NULL,
    attempt integer NOT NULL,
    seq     integer NOT NULL,
    level   text COLLATE "C" NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'critical')),
    job     text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL DEFAULT '',
    message text NOT NULL,
    fields  jsonb
) PARTITION BY RANGE (at);
-- Without a key, which would cost every line. What publishes deletes sends the whole line then.
ALTER TABLE rota.logs REPLICA IDENTITY FULL;
CREATE INDEX logs_run ON rota.logs (run_id, attempt, seq);
CREATE INDEX logs_job ON rota.logs (job, at);
CREATE INDEX logs_at ON rota.logs (at);
CREATE INDEX logs_bad ON rota.logs (at) WHERE level IN ('warning', 'error', 'critical');

INSERT INTO rota.partitioned VALUES ('logs', 1);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Takes the log level from the code, unless somebody has edited it.
-- Called by: before_job.
CREATE FUNCTION rota.follow_log_level(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'log_level' AND NOT NEW.edited ? 'log_level' THEN
        NEW.log_level := NEW.code ->> 'log_level';
    END IF;
    RETURN NEW;
END $$;

-- Spans of time whose words are indexed, or shall be: a row comes first, its index after it, outside of any
-- transaction. One is ready when its index is there and valid. Only the owner writes it: each row becomes an index.
CREATE TABLE rota.log_spans (
    index_name text COLLATE "C" PRIMARY KEY,
    partition  text COLLATE "C" NOT NULL,
    from_at    timestamptz NOT NULL,
    to_at      timestamptz NOT NULL CHECK (to_at > from_at),
    bytes      bigint NOT NULL,  -- of the partition when the span was closed
    UNIQUE (partition, from_at)
);

-- The partitions of the lines, with their bounds, which the server writes and reads in the style of the session.
-- Called by: close_log_spans, index_log_words, next_log_index, searchable_spans.
CREATE FUNCTION rota.log_partitions()
RETURNS TABLE (partition text, relation regclass, from_at timestamptz, to_at timestamptz) LANGUAGE sql STABLE
SET jit = off SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
    SELECT c.relname::text, c.oid::regclass, (regexp_match(b.bound, $r$FROM \('([^']+)'\)$r$))[1]::timestamptz,
           (regexp_match(b.bound, $r$TO \('([^']+)'\)$r$))[1]::timestamptz
    FROM pg_partition_tree('rota.logs') t JOIN pg_class c ON c.oid = t.relid
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
    WHERE t.isleaf AND b.bound ~ 'FROM'
$$;

-- A text in which a word is what stands between characters that are no letters and no digits. The server's parser takes
-- `<Order 17>` for a tag without words, and an address or a path for one word.
-- Called by: line_words, log_query, sql/logs/start.sql.
CREATE FUNCTION rota.plain_words(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(words,
        '<', ' '), '&', ' '), '/', ' '), '.', ' '), '@', ' '), '-', ' '), '+', ' '), '~', ' '), '_', ' ')
$$;

-- The words of a line, without the escapes of its fields. Cut, because a tsvector holds less than a megabyte and one
-- line must not stop an index.
-- Called by: index_log_words, next_log_index, sql/logs/fitting.sql.
CREATE FUNCTION rota.line_words(message text, fields jsonb) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('simple', rota.plain_words(left(message, 100000)))
        || to_tsvector('simple', rota.plain_words(regexp_replace(
            coalesce(left(fields::text, 100000), ''), '\\(u[0-9a-f]{4}|.)', ' ', 'g')))
$$;

-- Words and phrases that somebody looks for, as one query; `time*` is a beginning. NULL: nothing in it is a word.
-- Called by: sql/logs/start.sql.
CREATE FUNCTION rota.log_query(wanted text[], unwanted text[]) RETURNS tsquery LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    answer tsquery := '';
    phrase text;
    part   tsquery;
BEGIN
    FOREACH phrase IN ARRAY wanted LOOP
        part := phraseto_tsquery('simple', rota.plain_words(rtrim(phrase, '*')));
        IF numnode(part) = 0 THEN
            RETURN NULL;
        ELSIF phrase LIKE '%*' THEN
            part := (part::text || ':*')::tsquery;
        END IF;
        answer := answer && part;
    END LOOP;
    FOREACH phrase IN ARRAY unwanted LOOP
        answer := answer && !!phraseto_tsquery('simple', rota.plain_words(phrase));
    END LOOP;
    RETURN answer;
END $$;

-- Indexes the words of a partition whose day is over, for roles that do not own it: lines that come in for a partition
-- wait meanwhile. It runs as the owner, for a span that close_log_spans has closed; still the index is one of that
-- partition by its name, its bounds are within the partition's own, and only an index that a crash has left there
-- unfinished is dropped before.
-- Called by: next_log_index.
CREATE FUNCTION rota.index_log_words(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET jit = off SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    span record;
BEGIN
    SELECT s.index_name, greatest(s.from_at, p.from_at) AS from_at, least(s.to_at, p.to_at) AS to_at, p.relation,
        i.indexrelid, i.indisvalid INTO span
    FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
    LEFT JOIN pg_class own ON own.relname = s.index_name AND own.relnamespace = (SELECT c.relnamespace FROM pg_class c
        WHERE c.oid = p.relation)
    LEFT JOIN pg_index i ON i.indexrelid = own.oid AND i.indrelid = p.relation
    WHERE s.index_name = index_log_words.name AND p.to_at <= least(rota.now(), statement_timestamp())
      AND left(s.index_name, -12) = p.partition || '_words_' AND right(s.index_name, 12) ~ '^[0-9]{12}$'
      AND (own.oid IS NULL OR NOT i.indisvalid);
    IF FOUND THEN
        IF span.indexrelid IS NOT NULL THEN
            EXECUTE format('DROP INDEX rota.%I', span.index_name);
        END IF;
        EXECUTE format(
            'CREATE INDEX %I ON %s USING gin (rota.line_words(message, fields)) WITH (fastupdate = off) '
            'WHERE at >= %L AND at < %L',
                       span.index_name, span.relation, span.from_at, span.to_at);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.index_log_words(text) FROM PUBLIC;

-- Closes the spans that are due. A partition that has ended gets the rest of its words in one index; an open one is
-- cut as soon as what has no index grows too large to be read, and is an eighth of all (NULL: not at all). It runs as
-- the owner, because workers may not write log_spans: whatever a caller says, spans of a partition are apart from
-- each other, and few.
-- Called by: next_log_index.
CREATE FUNCTION rota.close_log_spans(least_bytes bigint) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET jit = off SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    clock timestamptz := rota.now();
    part  record;
    found record;
    size  bigint;
    until timestamptz;
BEGIN
    DELETE FROM rota.log_spans s WHERE NOT EXISTS (SELECT FROM rota.log_partitions() p WHERE p.partition = s.partition);
    FOR part IN SELECT * FROM rota.log_partitions() p WHERE p.from_at < clock ORDER BY p.from_at DESC LOOP
        SELECT s.to_at, s.bytes INTO found FROM rota.log_spans s WHERE s.partition = part.partition
        ORDER BY s.to_at DESC LIMIT 1;
        size := pg_relation_size(part.relation);
        -- Lines come some seconds late; what comes later still is indexed by the insert.
        until := least(clock - interval '1 minute', part.to_at);
        IF size > 0 AND until > coalesce(found.to_at, part.from_at) AND (until = part.to_at
            OR size - coalesce(found.bytes, 0) >= CASE WHEN least_bytes IS NOT NULL THEN greatest(least_bytes, size / 8)
                END) THEN
            INSERT INTO rota.log_spans VALUES (
                format('%s_words_%s', part.partition,
                    to_char(coalesce(found.to_at, part.from_at) AT TIME ZONE 'UTC', 'HH24MISSUS')),
                part.partition, coalesce(found.to_at, part.from_at), until, size)
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rota.close_log_spans(bigint) FROM PUBLIC;

-- Closes the spans that are due, and returns the statement that builds an index which is missing. Looks at index builds
-- of this database only: other databases of the server may have the same table numbers, where both were copied from
-- one template. For a role that does not own the lines the owner's function indexes them, once their day is over.
-- Called by: sql/upkeep/next_log_index.sql.
CREATE FUNCTION rota.next_log_index(least_bytes bigint) RETURNS TABLE (leftover text, statement text, analysis text)
LANGUAGE plpgsql VOLATILE SET jit = off SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    is_owner boolean := (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'rota.logs'::regclass);
    part  record;
BEGIN
    PERFORM rota.close_log_spans(CASE WHEN is_owner THEN least_bytes END);
    FOR part IN SELECT s.*, p.relation, s.from_at > p.from_at OR s.to_at < p.to_at AS is_partial
                FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
                WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                                  WHERE i.indrelid = p.relation AND c.relname = s.index_name AND i.indisvalid)
                  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index b
                      WHERE b.datname = current_database() AND b.relid = p.relation)
                  AND (is_owner OR p.to_at <= rota.now())
                ORDER BY s.from_at DESC LIMIT 1 LOOP
        IF NOT is_owner THEN
            statement := format('SELECT rota.index_log_words(%L)', part.index_name);
            analysis := 'SELECT';
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- An invalid one is what a crash has left, or somebody builds it: the lock of the table tells.
        leftover := (SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', c.oid::regclass) FROM pg_class c
            JOIN pg_index i ON i.indexrelid = c.oid
                     WHERE i.indrelid = part.relation AND c.relname = part.index_name);
        statement := format(
            'CREATE INDEX CONCURRENTLY %I ON %s USING gin (rota.line_words(message, fields)) WITH (fastupdate = off)',
                            part.index_name, part.relation)
            || CASE WHEN part.is_partial THEN format(' WHERE at >= %L AND at < %L', part.from_at, part.to_at)
                ELSE '' END;
        -- The planner has to know how rare a word is.
        analysis := format('ANALYZE %s', part.relation);
        RETURN NEXT;
    END LOOP;
END $$;

-- What can be searched, the newest first: partitions cut where their words are indexed.
-- Called by: sql/logs/spans.sql.
CREATE FUNCTION rota.searchable_spans(since timestamptz, until timestamptz)
RETURNS TABLE (from_at timestamptz, to_at timestamptz, is_indexed boolean) LANGUAGE sql STABLE AS $$
    WITH parts AS MATERIALIZED (
        SELECT * FROM rota.log_partitions() p
        WHERE (since IS NULL OR p.to_at > since) AND (until IS NULL OR p.from_at < until)
    ), ready AS MATERIALIZED (
        SELECT s.partition, s.from_at, s.to_at FROM rota.log_spans s
        JOIN parts p ON p.partition = s.partition
        JOIN pg_index i ON i.indrelid = p.relation AND i.indisvalid
        JOIN pg_class c ON c.oid = i.indexrelid AND c.relname = s.index_name
    ), cuts AS (
        SELECT p.partition, p.from_at AS at FROM parts p UNION SELECT p.partition, p.to_at FROM parts p
        UNION SELECT r.partition, r.from_at FROM ready r UNION SELECT r.partition, r.to_at FROM ready r
    ), pieces AS (
        SELECT c.partition, c.at AS from_at, lead(c.at) OVER (PARTITION BY c.partition ORDER BY c.at) AS to_at
        FROM cuts c
    )
    SELECT p.from_at, p.to_at, EXISTS (SELECT FROM ready r WHERE r.partition = p.partition AND r.from_at <= p.from_at
        AND r.to_at >= p.to_at)
    FROM pieces p WHERE p.to_at IS NOT NULL ORDER BY p.to_at DESC
$$;
