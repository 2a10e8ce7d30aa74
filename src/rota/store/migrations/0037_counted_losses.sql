-- Attempts whose end somebody else writes are counted where it is written: their worker cannot count them any more.

-- One attempt. The row is this session's own, so that nobody waits for anybody.
CREATE FUNCTION rota.count_attempt(job text, queue text, outcome text, duration_ms double precision) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.add_tallies(-pg_backend_pid(), ARRAY[job], ARRAY[queue], ARRAY[outcome], ARRAY[1], ARRAY[d.ms], ARRAY[d.ms::real],
        -- Bucket n holds what lasted less than 2^n microseconds.
        ARRAY[trunc(10::numeric ^ (16 * width_bucket(d.ms * 1000, ARRAY(SELECT 2::double precision ^ n FROM generate_series(0, 38) AS n))))])
    FROM (SELECT greatest(coalesce(duration_ms, 0), 0) AS ms) d
$$;

-- Until its worker was last heard of. started_at is by the clock of the business, a heartbeat by the real one.
CREATE FUNCTION rota.lost_duration_ms(of_worker bigint, since timestamptz) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT extract(epoch FROM w.heartbeat_at + s.clock_offset - since) * 1000 FROM rota.workers w, rota.settings s WHERE w.id = of_worker
$$;

-- With attempts left it becomes a past one while its run is still its worker's. A retry of a run whose last attempt was lost writes
-- such a row too, of an attempt that was counted when the run ended.
CREATE FUNCTION rota.count_lost_attempt() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(o.job, o.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
    FROM rota.open_runs o WHERE o.id = NEW.run_id AND o.attempt = NEW.attempt AND o.worker = NEW.worker;
    RETURN NULL;
END $$;
CREATE TRIGGER past_attempts_lost AFTER INSERT ON rota.past_attempts FOR EACH ROW WHEN (NEW.state = 'lost')
EXECUTE FUNCTION rota.count_lost_attempt();

CREATE FUNCTION rota.count_lost_end() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(NEW.job, NEW.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at));
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zlost AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.attempt_state = 'lost')
EXECUTE FUNCTION rota.count_lost_end();
