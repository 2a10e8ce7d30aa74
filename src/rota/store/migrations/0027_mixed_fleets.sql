-- Workers of one application that do not declare the same jobs: what one of them declares is not deleted from code
-- (docs/decisions/0011-definition-sync.md).

ALTER TABLE rota.workers ADD COLUMN is_start boolean NOT NULL DEFAULT false; -- not one that came back after it lost its lease

CREATE OR REPLACE FUNCTION rota.start_worker(for_worker bigint, of_application text, of_build text, is_new boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.fleet', 0));
    INSERT INTO rota.fleets AS f (application, number)
    SELECT a, 1 FROM unnest(ARRAY['', of_application]) a
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.application IS NOT NULL AND a IN ('', w.application)
                      AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp() AND w.id <> for_worker)
    ORDER BY a
    ON CONFLICT (application) DO UPDATE SET number = f.number + 1, started_at = rota.now() WHERE is_new;
    UPDATE rota.workers SET application = of_application, build = of_build, is_start = is_start OR is_new WHERE id = for_worker;
END $$;

-- What the workers of an application have: those that live or ended less than a minute ago, as a restart takes its time, and
-- the one that started last, until its row is swept.
CREATE FUNCTION rota.kept_jobs(of_application text) RETURNS SETOF text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT unnest(w.jobs) FROM rota.workers w
    WHERE w.application = of_application AND (
        coalesce(w.ended_at, w.lease_expires_at) > clock_timestamp() - interval '1 minute'
        OR w.id = (SELECT max(s.id) FROM rota.workers s WHERE s.application = of_application AND s.is_start))
$$;

-- What this application declared before and does no longer. A person who says so is contradicted by live workers only.
DROP FUNCTION rota.gone_jobs(text, text[]);
CREATE FUNCTION rota.gone_jobs(of_application text, names text[], is_told boolean) RETURNS SETOF text
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.job FROM rota.job_applications a
    WHERE a.application = of_application AND a.job <> ALL (names) AND CASE
        WHEN is_told THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application) w WHERE a.job = ANY (w.jobs))
        ELSE a.job NOT IN (SELECT rota.kept_jobs(of_application)) END
$$;

-- Asked by workers every few seconds: is there something that registering again would write?
CREATE OR REPLACE FUNCTION rota.must_sync(for_worker bigint) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM unnest(w.jobs) n JOIN rota.jobs j ON j.name = n AND j.code IS NOT NULL
                   WHERE NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = n AND a.application = w.application))
        OR (rota.may_speak(w.application, w.build, w.id) AND (
            w.build IS DISTINCT FROM (SELECT b.build FROM rota.builds b WHERE b.application = w.application ORDER BY b.number DESC LIMIT 1)
            OR EXISTS (SELECT FROM rota.gone_jobs(w.application, w.jobs, false))))
    FROM rota.workers w WHERE w.id = for_worker AND w.application IS NOT NULL
$$;

-- As before (0012), but a worker's own jobs are its application's whatever its build: what was marked deleted is revived, as
-- its code says; nothing else of older code counts.
CREATE OR REPLACE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL, forced text[] DEFAULT '{}'
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    is_told boolean := for_worker IS NULL AND names IS NOT NULL;
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
BEGIN
    IF definitions = '[]' AND names IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.definitions', 0));
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    IF is_told OR rota.may_speak(of_application, of_build, for_worker) THEN
        PERFORM rota.speak(of_application, of_build, for_worker);
        DELETE FROM rota.job_applications a WHERE a.application = of_application AND a.job = ANY (gone);
        UPDATE rota.jobs j SET deleted_from_code_at = rota.now()
        WHERE j.name = ANY (gone) AND NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name);
    ELSE
        gone := '{}';
        INSERT INTO rota.job_applications (job, application, hash)
        SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w JOIN rota.jobs j ON j.name = w.name
        WHERE for_worker IS NOT NULL AND w.name = ANY (changed) ORDER BY w.name COLLATE "C"
        ON CONFLICT (job, application) DO NOTHING;
        changed := ARRAY(SELECT c FROM unnest(changed) c LEFT JOIN rota.jobs j ON j.name = c
                         WHERE j.name IS NULL OR (for_worker IS NOT NULL AND j.deleted_from_code_at IS NOT NULL));
    END IF;
    PERFORM rota.write_definitions(of_application, definitions, changed, forced);
    PERFORM set_config('rota' || '.syncing', '', true), set_config('rota' || '.actor', coalesce(actor, ''), true);
    RETURN QUERY SELECT unnest(changed || gone);
END $$;

-- Why a job starts nothing: an operator disabled it, or no code has it any more. NULL: it does.
CREATE FUNCTION rota.job_refusal(job text) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN NOT j.is_enabled THEN 'job_disabled' WHEN j.name IS NULL OR j.deleted_from_code_at IS NOT NULL THEN 'job_deleted' END
    FROM (SELECT 1) one LEFT JOIN rota.jobs j ON j.name = job_refusal.job
$$;

-- As before (0017), with the reason that holds.
CREATE OR REPLACE FUNCTION rota.note_skipped_inits(for_worker bigint, of_release text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers := (SELECT w FROM rota.workers w WHERE w.id = for_worker);
BEGIN
    -- Many may start at once; one of them writes.
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.fleet', 0));
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule, details, claimed_at, decided_at, decided_by)
    SELECT s.id, clock, clock, 'skipped', m.reason, s.tenant, s.name, jsonb_build_object('init', m.marker), clock, clock, for_worker
    FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
    CROSS JOIN LATERAL (SELECT
        CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
             ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker,
        CASE WHEN NOT s.is_enabled THEN 'disabled'
             WHEN coalesce(s.paused_until > clock, s.paused_at IS NOT NULL) THEN 'paused'
             WHEN rota.job_refusal(j.name) IS NOT NULL THEN rota.job_refusal(j.name)
             WHEN s.is_shadow THEN 'shadow' END AS reason) m
    WHERE s.init IS NOT NULL AND s.finished_at IS NULL AND s.parked_at IS NULL AND m.marker IS NOT NULL AND m.reason IS NOT NULL
      AND j.application IN ('', starter.application)
      AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true) AND coalesce(s.run_count < s.max_runs, true)
      AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = s.id AND i.marker = m.marker AND i.marker <> 'once')
      AND NOT EXISTS (SELECT FROM rota.ledger l WHERE l.schedule_id = s.id AND l.details ->> 'init' = m.marker AND l.reason = m.reason)
    ON CONFLICT (schedule_id, nominal_at) DO NOTHING;
END $$;
