-- Who waits for a run says so here and listens on a channel of its own; the end of such a run calls it. Ends of other runs look at one
-- row in each statement. Not logged: after a crash the waiting ask, and say it again.
CREATE UNLOGGED TABLE rota.waits (
    run_id  bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (run_id, channel)
);
-- Whether anybody waits at all: until when somebody may. A row of its own, because a table that is filled and emptied all the time
-- takes long to be found empty while an old snapshot is held.
CREATE UNLOGGED TABLE rota.wait_marks (until timestamptz NOT NULL);

-- A wait is said again before it is over. Answers which of the runs are not open: those need not be waited for.
CREATE FUNCTION rota.await_runs(channel text, ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock + interval '1 minute') THEN
        UPDATE rota.wait_marks m SET until = clock + interval '2 minutes' WHERE m.until < clock + interval '1 minute';
        INSERT INTO rota.wait_marks (until) SELECT clock + interval '2 minutes' WHERE NOT EXISTS (SELECT FROM rota.wait_marks);
        -- Of those who went without a word.
        DELETE FROM rota.waits w WHERE w.until < clock;
    END IF;
    INSERT INTO rota.waits AS w (run_id, channel, until)
    SELECT DISTINCT i.id, await_runs.channel, clock + interval '2 minutes' FROM unnest(await_runs.ids) i (id) ORDER BY i.id
    ON CONFLICT (run_id, channel) DO UPDATE SET until = excluded.until;
    RETURN QUERY
    SELECT i.id FROM unnest(await_runs.ids) i (id)
    WHERE NOT EXISTS (SELECT FROM rota.open_runs o
                      WHERE o.id = i.id AND (o.expires_at IS NULL OR o.expires_at > rota.now() OR (o.state = 'running' AND o.started_at < o.expires_at)));
END $$;

-- These runs have ended, or most of them. Who waits is called with what became of a run and, in a second line, its result; with its id
-- alone where that is too long for a call, or unknown: then it looks. Asked after they were written, with a snapshot of its own.
CREATE FUNCTION rota.tell_waiting(ids bigint[], ended_at timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM pg_notify(w.channel, CASE WHEN octet_length(e.words) < 7900 THEN e.words ELSE w.run_id::text END)
    FROM unnest(tell_waiting.ids) i (id)
    JOIN rota.waits w ON w.run_id = i.id
    LEFT JOIN LATERAL (
        SELECT json_build_object('id', r.id, 'state', r.state, 'end_reason', r.end_reason, 'last_error', r.error)
            || coalesce(E'\n' || r.result::text, '') AS words
        FROM rota.ended_runs r
        WHERE r.id = i.id AND r.finished_at = tell_waiting.ended_at AND coalesce(pg_column_size(r.result), 0) < 7900
    ) e ON true
    WHERE e.words IS NOT NULL OR NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.id);
END $$;

-- Whatever ends runs tells it. As they are, with two lines more.
DO $$
DECLARE
    one     record;
    changed text;
BEGIN
    FOR one IN SELECT p.proname, pg_get_functiondef(p.oid) AS text FROM pg_proc p
               WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.waits'::regclass)
                 AND p.prosrc LIKE '%INSERT INTO rota.ended\_runs%' LOOP
        changed := regexp_replace(one.text, E'(\\n +SELECT id FROM ended;\\n)(END)',
            E'\\1    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN\n'
            '        PERFORM rota.tell_waiting(ids, clock);\n    END IF;\n\\2');
        changed := regexp_replace(changed, E'\\n( +RETURN moved;\\nEND)',
            E'\n    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN\n'
            '        PERFORM rota.tell_waiting(ARRAY(SELECT w.run_id FROM rota.waits w\n'
            '            WHERE w.run_id BETWEEN first_id AND first_id + cardinality(durations_us) - 1), clock);\n    END IF;\n\\1');
        IF changed = one.text THEN
            RAISE EXCEPTION 'function % ends runs in a way that this migration does not know', one.proname;
        END IF;
        EXECUTE changed;
    END LOOP;
END $$;
