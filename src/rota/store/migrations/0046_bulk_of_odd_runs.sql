-- As before (0019); a run that cannot be written stops no other of its batch either.
CREATE OR REPLACE FUNCTION rota.act_on_runs(
    action text, ids bigint[], payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS TABLE (run_id bigint, answer text, refusal text) LANGUAGE plpgsql VOLATILE SET lock_timeout = '2s' SET jit = off AS $$
#variable_conflict use_variable
BEGIN
    -- In one order, so that two who act on the same runs do not wait for each other.
    FOR run_id IN SELECT DISTINCT one FROM unnest(ids) AS one ORDER BY one LOOP
        answer := NULL;
        refusal := NULL;
        BEGIN
            CASE action
            WHEN 'cancel' THEN answer := rota.cancel_run(run_id => run_id, reason => reason, actor => actor);
            WHEN 'retry' THEN
                PERFORM rota.retry_run(run_id => run_id, payload => payload, delay => delay, reason => reason, actor => actor);
                answer := 'retried';
            WHEN 'delete' THEN
                PERFORM rota.delete_run(run_id => run_id, reason => reason, actor => actor);
                answer := 'deleted';
            END CASE;
        EXCEPTION
            WHEN lock_not_available THEN refusal := format('run %s is locked by another transaction', run_id);
            WHEN OTHERS THEN
                -- Of class 22 and 23: something in this one row cannot be written.
                IF SQLSTATE !~ '^(RO|22|23)' THEN
                    RAISE;
                END IF;
                refusal := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

-- Columns have been added since these tables were guarded.
SELECT rota.guard_values(t, false) FROM unnest(ARRAY['rota.open_runs', 'rota.workers']::regclass[]) t;
SELECT rota.guard_values(t, true) FROM unnest(ARRAY['rota.jobs', 'rota.schedules']::regclass[]) t;
