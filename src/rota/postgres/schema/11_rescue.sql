-- What happens to the runs of a worker that is gone: `mark_lost_workers` declares it lost by its lease,
-- `rescue_runs` takes its runs back. The price of suspicion is paid by the suspect alone: a run goes back to normal
-- work if others were lost with it and it has attempts to spare; else it is held until some worker isolates it.

-- Declares workers lost whose lease ran out, before any of their rows is touched. From then on isolating_run says
-- what a worker isolated when it was lost.
-- Called by: sql/workers/mark_lost.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.mark_lost_workers() RETURNS TABLE (worker bigint, name text) LANGUAGE sql VOLATILE
SET jit = off SET lock_timeout = '5s' AS $$
    UPDATE rota.workers w SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false,
        isolating_run = rota.isolating_of(w)
    WHERE w.id IN (SELECT l.id FROM rota.workers l
                   WHERE l.state IN ('live', 'stopping') AND l.lease_expires_at <= clock_timestamp()
                   FOR UPDATE SKIP LOCKED)
    RETURNING w.id, w.name
$$;

-- Takes back the runs of workers that are not live. It asks by rows, again and again, because a claim that was under
-- way when its worker was declared lost commits after that. What had not started goes back to its place free; so does
-- what ran beside a suspect in the suspect's process. What had started has lost an attempt, and goes back to normal
-- work if it shared its worker, was not lost before and its next attempt is not its last; else it must be isolated.
-- Its next start costs a rate another token. The last attempt is not spent where the loss may be a neighbour's doing:
-- in a batch claimed ahead, of which nobody knows how far it had come, or beside others, unless it has one attempt
-- only. That doubt ends after three times, so that a run that takes whole machines with it ends too. A lost attempt
-- leaves a line, and is counted in its error group. One rescuer at a time (lost_run_ids); runs that somebody has
-- locked are passed over.
-- Called by: sql/runs/rescue.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.rescue_runs(max_runs integer, everywhere boolean DEFAULT false)
RETURNS TABLE (run_id bigint, attempt integer, worker bigint, decision text) LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_seqscan = off
SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    lost    record;
    why     text;
    kind    text;
    place   record;
    is_held boolean;
    touched text[];
    holds   text[];
    hold    text;
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD'))
        IS NULL;
    FOR lost IN
        SELECT o.*, l.worker_name, l.is_shared, l.is_harmless,
               CASE WHEN c.run_id IS NOT NULL THEN 'cancelled'
                    WHEN NOT l.is_started THEN 'handed back'
                    WHEN l.is_freed AND (o.max_attempts > 1 OR o.claim_batch IS NOT NULL) THEN 'freed'
                    WHEN o.attempts_used + 1 < o.max_attempts THEN 'requeued'
                    WHEN (o.claim_batch IS NOT NULL OR l.is_shared AND o.max_attempts > 1) AND l.doubts < 3
                        THEN 'suspected'
                    ELSE 'failed' END AS decision,
               'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS cancel_reason,
               CASE WHEN o.limit_keys IS NOT NULL THEN rota.missing_keys(o.limit_keys, o.slots) END AS missing
        FROM rota.lost_runs(max_runs, everywhere) AS l
        JOIN rota.open_runs o ON o.id = l.id AND o.attempt = l.attempt
        LEFT JOIN rota.cancel_requests c ON c.run_id = o.id AND c.attempt = o.attempt
        WHERE o.state = 'running' AND NOT EXISTS (SELECT FROM rota.workers v
            WHERE v.id = o.worker AND v.state IN ('live', 'stopping'))
          -- How it ended is known, and is written by settle_kept_ends.
          AND NOT EXISTS (SELECT FROM rota.kept_ends k
              WHERE k.run_id = o.id AND k.attempt = o.attempt AND k.worker = o.worker)
        FOR UPDATE OF o SKIP LOCKED
    LOOP
        run_id := lost.id; attempt := lost.attempt; worker := lost.worker; decision := lost.decision;
        why := format('worker %s (%s) was lost during attempt %s', lost.worker, lost.worker_name, lost.attempt);
        kind := CASE lost.decision WHEN 'suspected' THEN 'SharedLoss' ELSE 'WorkerLost' END;
        IF lost.decision NOT IN ('handed back', 'cancelled') THEN
            PERFORM rota.log_failure(lost.id, lost.attempt, lost.worker, lost.job, lost.tenant, kind, why);
        END IF;
        CASE lost.decision
        WHEN 'handed back' THEN
            PERFORM rota.hand_back_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt]);
        WHEN 'cancelled' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['cancelled'], ARRAY['lost'], ARRAY[lost.cancel_reason]);
        WHEN 'failed' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['failed'], ARRAY['lost'], ARRAY['attempts used up'], NULL, ARRAY[kind], ARRAY[why]);
        ELSE
            is_held := NOT lost.is_harmless AND lost.decision <> 'freed'
                AND (lost.suspicion > 0 OR NOT lost.is_shared OR lost.attempts_used + 2 >= lost.max_attempts);
            INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_redelivery,
                is_spent, job, tenant, error_type, error)
            VALUES (lost.id, lost.attempt, 'lost', lost.worker, lost.started_at, clock, lost.suspicion > 0,
                    lost.decision = 'requeued', lost.job, lost.tenant, kind, why);
            place := rota.group_error(lost.job, kind, why, NULL);
            INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, error_type, error)
            VALUES (place.id, lost.job, lost.queue, lost.id, clock, kind, why);
            UPDATE rota.open_runs o
            SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, enqueued_at = clock_timestamp(),
                progress = NULL,
                attempts_used = o.attempts_used + (lost.decision = 'requeued')::integer,
                suspicion = CASE WHEN is_held THEN 2 ELSE 1 END,
                held_by = rota.hold_of(true, lost.missing, CASE WHEN is_held THEN smallint '2' ELSE smallint '1' END),
                limit_key = lost.missing[1], last_error = why, error_group = place.id
            WHERE o.id = lost.id RETURNING o.held_by INTO hold;
            IF hold IS NULL THEN
                touched := touched || lost.queue;
            END IF;
            holds := holds || hold;
        END CASE;
        RETURN NEXT;
    END LOOP;
    PERFORM rota.wake_for(ARRAY(SELECT DISTINCT t FROM unnest(touched) t), holds);
END $$;

-- What is known of lost runs before any of them is touched. is_shared: others had started on the same worker. is_freed:
-- the worker ran a known suspect in its own process, which is charged alone. is_harmless: it cannot take a process with
-- it.
-- Called by: rescue_runs.
CREATE FUNCTION rota.lost_runs(max_runs integer, everywhere boolean) RETURNS TABLE (
    id bigint, attempt integer, worker_name text, is_started boolean, is_shared boolean, is_freed boolean,
    is_harmless boolean, doubts bigint
) LANGUAGE sql VOLATILE SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET jit = off SET enable_seqscan = off AS $$
    SELECT o.id, o.attempt, coalesce(w.name, 'unknown'), s.is_started,
           count(*) FILTER (WHERE s.is_started) OVER (PARTITION BY o.worker) > 1,
           coalesce(w.is_isolating_inline AND w.state = 'lost' AND w.isolating_run <> o.id, false),
           coalesce(j.kind = 'sql' OR j.is_system, false),
           CASE WHEN o.suspicion > 0 THEN (
               SELECT count(*) FROM rota.past_attempts p
               WHERE p.run_id = o.id AND p.state = 'lost' AND NOT p.is_spent
                 AND p.error_type = 'SharedLoss')
           ELSE 0 END
    FROM rota.lost_run_ids(max_runs, everywhere) AS l (id)
    JOIN rota.open_runs o ON o.id = l.id
    LEFT JOIN rota.workers w ON w.id = o.worker
    LEFT JOIN rota.jobs j ON j.name = o.job
    CROSS JOIN LATERAL (SELECT coalesce(o.claim_batch, 0) <= coalesce((SELECT max(b.batch) FROM rota.batch_starts b
        WHERE b.worker = o.worker), 0)
                               AS is_started) s
$$;

-- Runs of workers that were lost within ten of their leases; everywhere: any running run whose worker is not live,
-- the net under the rest. There is no index on worker, as it would cost every claim: this reads all that is ready,
-- but only after a loss, and one reader at a time. All runs of a worker come together, because what was lost with a
-- run counts.
-- Called by: lost_runs.
-- Locks: "rescue" if it is free.
CREATE FUNCTION rota.lost_run_ids(max_runs integer, everywhere boolean) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET jit = off SET enable_seqscan = on AS $$
DECLARE
    dead bigint[] := ARRAY(SELECT w.id FROM rota.workers w
        WHERE w.state = 'lost' AND w.ended_at > clock_timestamp() - 10 * make_interval(secs => w.lease_seconds));
BEGIN
    IF NOT everywhere AND dead = '{}' OR NOT rota.try_lock('rescue') THEN
        RETURN;
    ELSIF everywhere THEN
        RETURN QUERY SELECT o.id FROM rota.open_runs o
            WHERE o.is_ready AND o.worker NOT IN (SELECT w.id FROM rota.workers w WHERE w.state IN ('live', 'stopping'))
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    ELSE
        RETURN QUERY SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.worker = ANY (dead)
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    END IF;
END $$;
