-- What a job gets of many events at once: the last of a burst (debounce) or the first of each period (throttle), by a key of its own. The
-- rule is the job's, and not that of one of its bindings: what `order.created` begins `order.updated` goes on with.
ALTER TABLE rota.jobs ADD COLUMN event_delivery jsonb;    -- NULL: each event, as it comes
SELECT rota.guard_values('rota.jobs', true);

-- What is wrong with a rule, in words; NULL: nothing.
CREATE FUNCTION rota.delivery_fault(rule jsonb) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN jsonb_typeof(rule) <> 'object' THEN 'is not a JSON object'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(rule) k WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key'))
            THEN format('has no "%s"', (SELECT min(k) FROM jsonb_object_keys(rule) k
                WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key')))
        WHEN (rule ? 'debounce_seconds') = (rule ? 'throttle_seconds') THEN 'has either debounce_seconds or throttle_seconds'
        WHEN rule ? 'longest_seconds' AND NOT rule ? 'debounce_seconds' THEN 'has longest_seconds, which belongs to debounce_seconds'
        WHEN jsonb_path_exists(rule, 'strict $.keyvalue() ? (@.key != "key" && @.value.type() != "number")') THEN 'has a time that is not a number of seconds'
        WHEN (coalesce(rule ->> 'debounce_seconds', rule ->> 'throttle_seconds'))::numeric NOT BETWEEN 0.001 AND 31536000
            THEN 'has a time that is not between 0.001 and 31536000 seconds (a year)'
        WHEN (rule ->> 'longest_seconds')::numeric NOT BETWEEN (rule ->> 'debounce_seconds')::numeric AND 31536000
            THEN 'has longest_seconds that are not between debounce_seconds and 31536000 (a year)'
        WHEN rule ? 'key' AND jsonb_typeof(rule -> 'key') <> 'string' THEN 'has a key that is not a text'
        WHEN rule ->> 'key' !~ '^[^[:cntrl:]]{1,200}$' OR regexp_replace(rule ->> 'key', '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN format('has the key "%s", which is no template', left(rule ->> 'key', 200))
    END
$$;

-- As of filters: the rule follows the code until somebody touches it.
CREATE FUNCTION rota.check_event_delivery() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'event_delivery' AND NOT NEW.edited ? 'event_delivery' THEN
        NEW.event_delivery := NEW.code -> 'event_delivery';
    END IF;
    NEW.event_delivery := nullif(NEW.event_delivery, 'null');
    IF rota.delivery_fault(NEW.event_delivery) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'event_delivery ' || rota.delivery_fault(NEW.event_delivery),
            'Write for example {"debounce_seconds": 5, "longest_seconds": 60, "key": "order:{order_id}"} or {"throttle_seconds": 60}.');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_event_delivery BEFORE INSERT OR UPDATE OF code, event_delivery ON rota.jobs
    FOR EACH ROW EXECUTE FUNCTION rota.check_event_delivery();

-- The burst that an event belongs to, among the keys of a job. A template knows what those of limits know, and {event.name} and {event.key}.
CREATE FUNCTION rota.event_burst(rule jsonb, event text, key text, payload jsonb, job text, queue text, tenant text) RETURNS text
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT 'event:' || coalesce(rota.fill_key(rule ->> 'key',
        payload || jsonb_build_object('event', jsonb_build_object('name', event, 'key', key)), job, queue, tenant, NULL), '')
$$;

-- Delivers events to a job whose rule bundles them; the one way for emits, tables and replays. Of each burst one event is enqueued, however
-- many there are: a load of ten thousand rows is not ten thousand versions of one run. Keys are taken in their order, so that two loads
-- wait for each other and do not deadlock. Answers what each event got, by its place.
CREATE FUNCTION rota.deliver_bursts(
    job text, rule jsonb, queue text, events text[], keys text[], payloads jsonb[], tenants text[], metadatas jsonb[], causes jsonb[]
) RETURNS TABLE (place bigint, told jsonb) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    is_debounced constant boolean := deliver_bursts.rule ? 'debounce_seconds';
    burst  record;
    run    record;
    shared jsonb;
BEGIN
    FOR burst IN
        WITH given AS MATERIALIZED (
            SELECT u.n, u.payload, coalesce(u.tenant, '') AS tenant, u.metadata, u.cause,
                rota.event_burst(deliver_bursts.rule, u.event, u.key, u.payload, deliver_bursts.job, deliver_bursts.queue, coalesce(u.tenant, '')) AS key
            FROM unnest(deliver_bursts.events, deliver_bursts.keys, deliver_bursts.payloads, deliver_bursts.tenants, deliver_bursts.metadatas,
                deliver_bursts.causes) WITH ORDINALITY AS u (event, key, payload, tenant, metadata, cause, n)
        ), bursts AS (
            SELECT g.tenant, g.key, array_agg(g.n ORDER BY g.n) AS places, CASE WHEN is_debounced THEN max(g.n) ELSE min(g.n) END AS chosen
            FROM given g GROUP BY g.tenant, g.key
        )
        SELECT b.tenant, b.key, b.places, b.chosen, g.payload, g.metadata, g.cause FROM bursts b JOIN given g ON g.n = b.chosen ORDER BY b.tenant, b.key
    LOOP
        SELECT r.run_id, r.is_duplicate INTO run FROM rota.enqueue_run(job => deliver_bursts.job, payload => burst.payload, key => burst.key,
            on_conflict => CASE WHEN is_debounced THEN 'debounce' ELSE 'throttle' END,
            delay => make_interval(secs => (deliver_bursts.rule ->> 'debounce_seconds')::double precision),
            key_seconds => coalesce(deliver_bursts.rule ->> 'longest_seconds', deliver_bursts.rule ->> 'throttle_seconds')::double precision,
            tenant => burst.tenant, metadata => burst.metadata,
            triggered_by => burst.cause || CASE WHEN is_debounced THEN jsonb_build_object('debounced', cardinality(burst.places)) ELSE '{}' END) r;
        IF NOT run.is_duplicate THEN
            PERFORM nextval('rota.event_starts');
        ELSIF is_debounced THEN
            -- It has the payload of the last event now, and says which that was.
            UPDATE rota.open_runs o SET triggered_by = burst.cause || jsonb_build_object('debounced', cardinality(burst.places)
                + CASE jsonb_typeof(o.triggered_by -> 'debounced') WHEN 'number' THEN (o.triggered_by ->> 'debounced')::numeric ELSE 0 END)
            WHERE o.id = run.run_id;
        END IF;
        PERFORM count(nextval('rota.duplicates')) FROM generate_series(2, cardinality(burst.places));
        shared := CASE WHEN is_debounced THEN '{"debounced": true, "is_duplicate": true}'
            ELSE jsonb_build_object('is_duplicate', true, 'throttled_until', (SELECT k.expires_at FROM rota.keys k
                WHERE k.tenant = burst.tenant AND k.job = deliver_bursts.job AND k.key = burst.key)) END;
        RETURN QUERY
        SELECT p, jsonb_build_object('job', deliver_bursts.job, 'run', run.run_id) || CASE WHEN p <> burst.chosen OR run.is_duplicate THEN shared
            WHEN is_debounced THEN shared - 'is_duplicate' ELSE '{}' END
        FROM unnest(burst.places) p;
    END LOOP;
END $$;

-- As before, and how the job wants its events.
DROP FUNCTION rota.bound_jobs(text, jsonb);
CREATE FUNCTION rota.bound_jobs(event text, payload jsonb) RETURNS TABLE (job text, fits boolean, is_enabled boolean, rule jsonb, queue text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT b.job, bool_or((b.has_values IS NULL OR bound_jobs.payload @> b.has_values) AND (b.test IS NULL OR coalesce(bound_jobs.payload @@ b.test, false))),
           j.is_enabled, j.event_delivery, j.queue
    FROM (SELECT e.job, e.has_values, e.test FROM rota.event_bindings e WHERE e.pattern = bound_jobs.event AND NOT e.is_pattern
          UNION ALL
          SELECT p.job, p.has_values, p.test FROM rota.event_bindings p WHERE p.is_pattern AND bound_jobs.event LIKE p.like_pattern) b
    JOIN rota.jobs j ON j.name = b.job
    GROUP BY b.job, j.is_enabled, j.event_delivery, j.queue ORDER BY b.job
$$;

-- As before. The key of an event is that of its run, or what a rule makes of it: event_key.
DROP FUNCTION rota.deliver(text, bigint, jsonb, text, text, double precision, jsonb, jsonb);
CREATE FUNCTION rota.deliver(event text, event_id bigint, payload jsonb, tenant text, key text, key_seconds double precision,
    metadata jsonb, triggered_by jsonb, event_key text) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    one  record;
    run  record;
    made jsonb[] := '{}';
    told jsonb;
BEGIN
    FOR one IN SELECT * FROM rota.bound_jobs(deliver.event, deliver.payload) LOOP
        IF NOT one.fits THEN
            made := made || jsonb_build_object('job', one.job, 'skipped', 'filter');
            CONTINUE;
        ELSIF one.rule IS NOT NULL THEN
            told := (SELECT b.told FROM rota.deliver_bursts(one.job, one.rule, one.queue, ARRAY[deliver.event], ARRAY[deliver.event_key], ARRAY[deliver.payload],
                ARRAY[deliver.tenant], ARRAY[deliver.metadata], ARRAY[deliver.triggered_by]) b);
        ELSE
            SELECT r.run_id, r.is_duplicate INTO run FROM rota.enqueue_run(job => one.job, payload => deliver.payload, key => deliver.key,
                key_seconds => deliver.key_seconds, tenant => deliver.tenant, metadata => deliver.metadata, triggered_by => deliver.triggered_by) r;
            IF NOT run.is_duplicate THEN
                PERFORM nextval('rota.event_starts');
            END IF;
            told := jsonb_build_object('job', one.job, 'run', run.run_id) || CASE WHEN run.is_duplicate THEN jsonb '{"is_duplicate": true}' ELSE '{}' END;
        END IF;
        made := made || (told || CASE WHEN one.is_enabled THEN jsonb '{}' ELSE '{"is_disabled": true}' END);
    END LOOP;
    RETURN nullif(to_jsonb(made), '[]');
END $$;

-- As it is defined now; it tells deliver the key of the event, also where the key has a period of its own.
DO $$
DECLARE
    text constant text := pg_get_functiondef('rota.emit(text, jsonb, text, text, jsonb, double precision, bigint, text, double precision, jsonb)'::regprocedure);
    call constant text := 'rota.event_trigger(emit.event, made.id, made.actor, made.role, made.source));';
BEGIN
    IF strpos(text, call) = 0 THEN
        RAISE EXCEPTION 'rota.emit is not as it was';
    END IF;
    EXECUTE replace(text, call, 'rota.event_trigger(emit.event, made.id, made.actor, made.role, made.source), emit.key);');
END $$;

-- As before, and in bursts where the job wants them so.
CREATE OR REPLACE FUNCTION rota.emit_many(event text, payloads jsonb[], tenants text[] DEFAULT NULL, source jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made   record;
    bound  record;
    fit    record;
    ids    bigint[];
    runs   bigint[];
    got    jsonb[];
    places bigint[] := '{}';        -- of what each job got, with the place of the event
    told   jsonb[] := '{}';
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock, s.payload_bytes, nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        (SELECT w.n FROM unnest(payloads, tenants) WITH ORDINALITY AS w (payload, tenant, n)
         WHERE jsonb_typeof(w.payload) IS DISTINCT FROM 'object' OR pg_column_size(w.payload) > s.payload_bytes OR length(w.tenant) > 200
         ORDER BY w.n LIMIT 1) AS wrong
    INTO made FROM rota.settings s;
    IF (length(emit_many.event) BETWEEN 1 AND 200 AND emit_many.event !~ '[\s*]' AND made.wrong IS NULL) IS NOT TRUE THEN
        PERFORM rota.refuse_event(emit_many.event, payloads[coalesce(made.wrong, 1)], coalesce(tenants[made.wrong], ''), NULL, NULL, NULL, NULL,
            made.payload_bytes);
    END IF;
    IF NOT rota.has_event_room(made.clock) THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    ids := ARRAY(SELECT nextval('rota.event_ids') FROM generate_series(1, cardinality(payloads)));
    FOR bound IN SELECT b.job, b.is_enabled, b.rule, b.queue FROM rota.bound_jobs(emit_many.event, '{}') b LOOP
        SELECT coalesce(array_agg(w.payload ORDER BY w.n) FILTER (WHERE w.fits), '{}') AS payloads,
               array_agg(coalesce(w.tenant, '') ORDER BY w.n) FILTER (WHERE w.fits) AS tenants,
               array_agg(w.id ORDER BY w.n) FILTER (WHERE w.fits) AS ids, array_agg(w.n ORDER BY w.n) FILTER (WHERE w.fits) AS places,
               coalesce(array_agg(w.n ORDER BY w.n) FILTER (WHERE NOT w.fits), '{}') AS others
        INTO fit
        FROM (SELECT u.*, EXISTS (
                  SELECT FROM rota.event_bindings b
                  WHERE b.job = bound.job AND (b.pattern = emit_many.event OR (b.is_pattern AND emit_many.event LIKE b.like_pattern))
                    AND (b.has_values IS NULL OR u.payload @> b.has_values) AND (b.test IS NULL OR coalesce(u.payload @@ b.test, false))) AS fits
              FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS u (payload, tenant, id, n)) w;
        places := places || fit.others;
        told := told || ARRAY(SELECT jsonb_build_object('job', bound.job, 'skipped', 'filter') FROM unnest(fit.others));
        CONTINUE WHEN fit.payloads = '{}';
        IF bound.rule IS NOT NULL THEN
            got := ARRAY(SELECT b.told FROM rota.deliver_bursts(bound.job, bound.rule, bound.queue,
                array_fill(emit_many.event, ARRAY[cardinality(fit.ids)]), '{}', fit.payloads, fit.tenants, '{}',
                ARRAY(SELECT rota.event_trigger(emit_many.event, i, made.actor, made.role, emit_many.source)
                      FROM unnest(fit.ids) WITH ORDINALITY AS u (i, n) ORDER BY u.n)) b ORDER BY b.place);
        ELSE
            runs := ARRAY(SELECT r.run_id FROM rota.enqueue_many(jobs => ARRAY[bound.job], payloads => fit.payloads, tenants => fit.tenants,
                triggered_by => rota.event_trigger(emit_many.event, NULL, made.actor, made.role, emit_many.source)) WITH ORDINALITY AS r (run_id, is_duplicate, n)
                ORDER BY r.n);
            PERFORM rota.name_events(runs, fit.ids);
            got := ARRAY(SELECT jsonb_build_object('job', bound.job, 'run', r.run_id) FROM unnest(runs) WITH ORDINALITY AS r (run_id, n) ORDER BY r.n);
        END IF;
        places := places || fit.places;
        told := told || CASE WHEN bound.is_enabled THEN got
            ELSE ARRAY(SELECT g.one || '{"is_disabled": true}' FROM unnest(got) WITH ORDINALITY AS g (one, n) ORDER BY g.n) END;
    END LOOP;
    INSERT INTO rota.events (tenant, name, id, at, payload, actor, role, source, deliveries)
    SELECT coalesce(w.tenant, ''), emit_many.event, w.id, made.clock, w.payload, made.actor, made.role, emit_many.source, d.deliveries
    FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS w (payload, tenant, id, n)
    LEFT JOIN (SELECT t.place, jsonb_agg(t.told ORDER BY t.i) AS deliveries FROM unnest(places, told) WITH ORDINALITY AS t (place, told, i) GROUP BY t.place) d
        ON d.place = w.n
    ORDER BY w.n;
    RETURN cardinality(payloads);
END $$;

-- As before, with what bursts come to. What is debounced has no run of its own, not the first one either: the last one's payload runs.
CREATE OR REPLACE FUNCTION rota.event_outcome(deliveries jsonb, duplicate_of bigint) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN duplicate_of IS NOT NULL THEN 'duplicate'
                WHEN jsonb_typeof(deliveries) IS DISTINCT FROM 'array' OR deliveries = '[]' THEN 'unbound'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && !(@.is_duplicate == true) && !(@.debounced == true))') THEN 'started'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && @.debounced == true)') THEN 'debounced'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && exists(@.throttled_until))') THEN 'throttled'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run))') THEN 'duplicate'
                ELSE 'filtered' END
$$;

-- As before, in bursts where the job wants them so: `joined` are those that got the run of another event. A dry run counts the bursts.
DROP FUNCTION rota.replay_events(text, text, bigint[], timestamptz, timestamptz, text, boolean, boolean, text, text);
CREATE FUNCTION rota.replay_events(
    job text, event text DEFAULT NULL, ids bigint[] DEFAULT NULL, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
    tenant text DEFAULT NULL, again boolean DEFAULT false, dry_run boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    OUT events bigint, OUT started bigint, OUT delivered_before bigint, OUT filtered bigint, OUT held bigint, OUT joined bigint
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    most  constant integer := 10000;
    who   constant text := coalesce(replay_events.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    def   record;
    found bigint[];
    ready bigint[] := '{}';
    one   record;
    fits  boolean;
    run   record;
BEGIN
    started := 0; joined := 0; delivered_before := 0; filtered := 0; held := 0;
    SELECT j.name, j.queue, j.event_delivery AS rule INTO def FROM rota.jobs j WHERE j.name = replay_events.job;
    IF def.name IS NULL THEN
        PERFORM rota.unknown_job(replay_events.job);
    ELSIF num_nonnulls(replay_events.event, replay_events.ids) <> 1 THEN
        RAISE EXCEPTION 'say which events: either by name or by id' USING ERRCODE = 'RO002';
    END IF;
    found := ARRAY(
        SELECT e.id FROM rota.events e
        WHERE (replay_events.ids IS NULL OR e.id = ANY (replay_events.ids))
          AND (replay_events.event IS NULL OR e.name = replay_events.event
               OR (strpos(replay_events.event, '*') > 0 AND e.name LIKE rota.like_event(replay_events.event)))
          AND (replay_events.since IS NULL OR e.at >= replay_events.since) AND (replay_events.until IS NULL OR e.at < replay_events.until)
          AND (replay_events.tenant IS NULL OR e.tenant = replay_events.tenant) AND e.duplicate_of IS NULL
        ORDER BY e.id LIMIT most + 1);
    events := cardinality(found);
    IF events > most THEN
        RAISE EXCEPTION 'more than % events match', most USING ERRCODE = 'RO002', HINT = 'Replay them in parts: narrow since and until.';
    END IF;
    held := events;
    FOR one IN EXECUTE 'SELECT e.* FROM rota.events e WHERE e.id = ANY ($1) ORDER BY e.id' || CASE WHEN replay_events.dry_run THEN '' ELSE ' FOR UPDATE SKIP LOCKED' END
        USING found
    LOOP
        held := held - 1;
        fits := (SELECT bool_or((b.has_values IS NULL OR one.payload @> b.has_values) AND (b.test IS NULL OR coalesce(one.payload @@ b.test, false)))
                 FROM rota.event_bindings b
                 WHERE b.job = replay_events.job AND (b.pattern = one.name OR (b.is_pattern AND one.name LIKE b.like_pattern)));
        IF NOT replay_events.again AND jsonb_path_exists(coalesce(one.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.run))',
                jsonb_build_object('job', replay_events.job)) THEN
            delivered_before := delivered_before + 1;
        ELSIF NOT fits THEN
            filtered := filtered + 1;
        ELSIF def.rule IS NOT NULL THEN
            ready := array_append(ready, one.id);
        ELSE
            started := started + 1;
            CONTINUE WHEN replay_events.dry_run;
            SELECT r.run_id INTO run FROM rota.enqueue_run(job => replay_events.job, payload => one.payload, tenant => one.tenant, metadata => one.metadata,
                triggered_by => rota.event_trigger(one.name, one.id, one.actor, one.role, one.source) || jsonb_build_object('replayed_by', who)) r;
            PERFORM nextval('rota.event_starts');
            UPDATE rota.events e
            SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
                || jsonb_build_object('job', replay_events.job, 'run', run.run_id, 'replayed_by', who, 'replayed_at', rota.now())
            WHERE e.tenant = one.tenant AND e.name = one.name AND e.id = one.id AND e.at = one.at;
        END IF;
    END LOOP;
    IF ready <> '{}' THEN
        started := rota.replay_bursts(def.name, def.rule, def.queue, ready, who, replay_events.dry_run);
        joined := cardinality(ready) - started;
    END IF;
    IF NOT replay_events.dry_run THEN
        PERFORM rota.write_audit(replay_events.actor, 'event.replayed', 'job', replay_events.job, NULL, jsonb_strip_nulls(jsonb_build_object(
            'event', replay_events.event, 'ids', to_jsonb(replay_events.ids[1:100]), 'since', replay_events.since, 'until', replay_events.until,
            'again', nullif(replay_events.again, false), 'started', started, 'joined', nullif(joined, 0), 'delivered_before', delivered_before,
            'filtered', filtered, 'held', held)),
            replay_events.reason, coalesce(replay_events.tenant, ''));
    END IF;
END $$;

-- Replays these events in bursts, and answers how many runs that started, or would.
CREATE FUNCTION rota.replay_bursts(job text, rule jsonb, queue text, ids bigint[], who text, dry_run boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    given record;
    made  bigint;
BEGIN
    IF replay_bursts.dry_run THEN
        RETURN (SELECT count(DISTINCT (e.tenant, rota.event_burst(replay_bursts.rule, e.name, e.key, e.payload, replay_bursts.job, replay_bursts.queue, e.tenant)))
                FROM rota.events e WHERE e.id = ANY (replay_bursts.ids));
    END IF;
    SELECT array_agg(e.name ORDER BY e.id) AS names, array_agg(e.key ORDER BY e.id) AS keys, array_agg(e.payload ORDER BY e.id) AS payloads,
        array_agg(e.tenant ORDER BY e.id) AS tenants, array_agg(e.metadata ORDER BY e.id) AS metadatas, array_agg(e.id ORDER BY e.id) AS ids,
        array_agg(e.at ORDER BY e.id) AS times, array_agg(rota.event_trigger(e.name, e.id, e.actor, e.role, e.source)
            || jsonb_build_object('replayed_by', replay_bursts.who) ORDER BY e.id) AS causes
    INTO given FROM rota.events e WHERE e.id = ANY (replay_bursts.ids);
    WITH told AS MATERIALIZED (
        SELECT b.place, b.told FROM rota.deliver_bursts(replay_bursts.job, replay_bursts.rule, replay_bursts.queue, given.names, given.keys, given.payloads,
            given.tenants, given.metadatas, given.causes) b
    ), kept AS (
        UPDATE rota.events e
        SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
            || (t.told || jsonb_build_object('replayed_by', replay_bursts.who, 'replayed_at', rota.now()))
        FROM told t JOIN unnest(given.ids, given.times) WITH ORDINALITY AS g (id, at, n) ON g.n = t.place
        WHERE e.id = g.id AND e.at = g.at
    )
    SELECT count(*) INTO made FROM told t WHERE NOT t.told ? 'is_duplicate';
    RETURN made;
END $$;

-- Why a run waits, and why a job that is bound to events did not start.
INSERT INTO rota.reasons (place, code, sentence, next_step, command, is_past) VALUES
(10, 'debounced', 'It waits for a quiet time: it has the last of {events}, and each that comes puts it off.', 'It takes its place in queue {queue} when none has come for a while, and at the latest after the longest wait of its job.', 'rota events list --job {job}', false),
(90, 'event_throttled', 'Event {event}, the last that it is bound to, was throttled: run {run} is that of its period.', 'The first event of the next period starts a run.', 'rota events show {event}', true);

DO $$
DECLARE
    text constant text := pg_get_functiondef('rota.why_open_run(rota.open_runs)'::regprocedure);
    code constant text := $q$WHEN last.state IS NULL THEN 'waits_for_time'$q$;
    fact constant text := $q$jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule,$q$;
BEGIN
    IF strpos(text, code) = 0 OR strpos(text, fact) = 0 THEN
        RAISE EXCEPTION 'rota.why_open_run is not as it was';
    END IF;
    EXECUTE replace(replace(text, code, $q$WHEN last.state IS NULL AND o.triggered_by ? 'debounced' THEN 'debounced' $q$ || code), fact,
        fact || $q$ 'job', o.job, 'events', CASE WHEN jsonb_typeof(o.triggered_by -> 'debounced') = 'number'
                THEN rota.plural_words((o.triggered_by ->> 'debounced')::numeric::bigint, 'event') ELSE 'its events' END,$q$);
END $$;

-- As before (0084), and what was throttled.
CREATE OR REPLACE FUNCTION rota.why_events(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    most constant integer := 500;
    mine constant jsonb := jsonb_build_object('job', j.name);
    last record;
BEGIN
    IF j.events = '{}' OR j.deleted_from_code_at IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT e.id, e.at, jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && @.skipped == "filter")', mine)
            AND NOT jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.run))', mine) AS is_filtered,
        jsonb_path_query_first(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.throttled_until))', mine) AS throttled
    INTO last
    FROM (SELECT n.id, n.at, n.name, n.deliveries FROM rota.events n ORDER BY n.id DESC LIMIT most) e
    WHERE EXISTS (SELECT FROM rota.event_bindings b WHERE b.job = j.name AND (b.pattern = e.name OR (b.is_pattern AND e.name LIKE b.like_pattern)))
    ORDER BY e.id DESC LIMIT 1;
    IF last.id IS NULL THEN
        RETURN NEXT ROW('no_event', NULL, NULL, NULL, jsonb_build_object('job', j.name, 'looked', rota.plural_words(most, 'event'),
            'bound', rota.short_words(array_to_string(j.events, ', '))))::rota.finding;
    ELSIF last.is_filtered THEN
        RETURN NEXT ROW('event_filtered', last.at, NULL, NULL, jsonb_build_object('event', last.id))::rota.finding;
    ELSIF last.throttled IS NOT NULL THEN
        RETURN NEXT ROW('event_throttled', last.at, NULL, NULL, jsonb_build_object('event', last.id, 'run', last.throttled -> 'run'))::rota.finding;
    END IF;
END $$;
