-- Marks that hold whatever the clock did. `at`: no run with a higher id was created before it, nor has one ended before it.
-- `latest_at`: no run with this id or a lower one was created after it. While the clock only goes forward they are one and the
-- same (NULL: the same); when it was put back, marks of the time ahead say no more than that.

DELETE FROM rota.id_marks m USING rota.id_marks o WHERE o.id = m.id AND o.at < m.at;
ALTER TABLE rota.id_marks DROP CONSTRAINT id_marks_pkey, ADD PRIMARY KEY (id), ADD COLUMN latest_at timestamptz;
UPDATE rota.id_marks m SET latest_at = w.latest, at = w.earliest
FROM (SELECT id, max(at) OVER (ORDER BY id) AS latest, min(at) OVER (ORDER BY id DESC) AS earliest FROM rota.id_marks) w WHERE w.id = m.id;

CREATE FUNCTION rota.mark_clock() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
BEGIN
    UPDATE rota.id_marks m SET at = clock WHERE m.at > clock;
    INSERT INTO rota.id_marks AS m (id, at, latest_at)
    SELECT s.last_value, clock, greatest(clock, (SELECT coalesce(n.latest_at, n.at) FROM rota.id_marks n ORDER BY n.id DESC LIMIT 1)) FROM rota.run_ids s
    ON CONFLICT (id) DO UPDATE SET at = least(m.at, excluded.at), latest_at = greatest(m.latest_at, excluded.latest_at);
END $$;

-- Every few minutes, and at once when the clock was put back.
CREATE OR REPLACE FUNCTION rota.mark_id() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM (SELECT m.at FROM rota.id_marks m ORDER BY m.id DESC LIMIT 1) newest
                   WHERE newest.at BETWEEN rota.now() - interval '4 minutes' AND rota.now()) THEN
        PERFORM rota.mark_clock();
    END IF;
END $$;

-- The latest instant at which this id had certainly not been given out yet; nothing about its run is older. NULL: unknown.
CREATE FUNCTION rota.created_after(run_id bigint) RETURNS timestamptz LANGUAGE sql STABLE SET jit = off AS $$
    SELECT least(m.at, rota.now()) FROM rota.id_marks m WHERE m.id < run_id ORDER BY m.id DESC LIMIT 1
$$;

-- A clock that stands at no instant would stop everything. Marked before and after: ids of both times lie side by side.
CREATE OR REPLACE FUNCTION rota.set_clock(at timestamptz) RETURNS timestamptz LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz;
BEGIN
    IF NOT rota.is_instant(at) THEN
        RAISE EXCEPTION 'the clock cannot be set to %', at USING ERRCODE = 'RO002', HINT = 'An instant lies in the years 1 to 9999.';
    END IF;
    PERFORM rota.mark_clock();
    UPDATE rota.settings SET clock_offset = coalesce(at - statement_timestamp(), '0')
    RETURNING statement_timestamp() + clock_offset INTO clock;
    PERFORM rota.mark_clock();
    RETURN clock;
END $$;

-- As before (0019), by the mark: a run that was created while the clock was ahead has attempts and lines that are older.
CREATE OR REPLACE FUNCTION rota.delete_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place record := rota.find_ended(delete_run.run_id);
    old   rota.ended_runs;
    open_state text;
BEGIN
    DELETE FROM rota.ended_runs r
    WHERE r.id = delete_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at RETURNING r.* INTO old;
    IF NOT FOUND THEN
        SELECT o.state INTO open_state FROM rota.open_runs o WHERE o.id = delete_run.run_id;
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', delete_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', delete_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that has ended can be deleted: cancel it first.';
    END IF;
    PERFORM rota.delete_traces(ARRAY[old.id], least(old.created_at, rota.created_after(old.id)));
    PERFORM rota.write_audit(delete_run.actor, 'run.deleted', 'run', old.id::text,
        jsonb_build_object('job', old.job, 'state', old.state, 'finished_at', old.finished_at), NULL, delete_run.reason, old.tenant);
END $$;
