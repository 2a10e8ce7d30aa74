-- Somebody's open transaction on the counts of a schedule's day kept the ends of its runs waiting, and whatever was written with
-- them: such an end is settled later, as one whose schedule or ledger row is held.

-- Of what note_schedule_end writes, all rows, or nothing: false where somebody holds one. Ends that are settled days later are
-- counted for their own day, whose row nobody else writes any more.
CREATE OR REPLACE FUNCTION rota.lock_schedule_end(of_schedule bigint, of_run bigint, nominal timestamptz) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    since date := (rota.now() AT TIME ZONE 'UTC')::date - 1;
BEGIN
    PERFORM FROM rota.schedules s WHERE s.id = of_schedule FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.schedules s WHERE s.id = of_schedule) THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM rota.schedule_days d WHERE d.schedule_id = of_schedule AND d.day >= since AND d.day NOT IN (
            SELECT f.day FROM (SELECT o.day FROM rota.schedule_days o WHERE o.schedule_id = of_schedule AND o.day >= since
                               FOR NO KEY UPDATE SKIP LOCKED) f)) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (
        SELECT FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run);
END $$;
