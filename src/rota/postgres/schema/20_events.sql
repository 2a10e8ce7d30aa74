-- `events`: what was emitted, in partitions by day; `event_keys` make one happen once; `event_bindings` are the
-- jobs' events and filters, made ready for `emit`. Verbs: `emit`, `emit_many`, `replay_events`. `hook_refusals`
-- counts calls of webhooks that were refused.

-- Numbers of events, in the order in which they came.
CREATE SEQUENCE rota.event_ids;
-- How many runs events have started: counted without a row, as duplicates are.
CREATE SEQUENCE rota.event_starts;

-- One row is written for an event and nothing else where no job is bound, so it has few indexes: one by name, one by
-- number.
CREATE TABLE rota.events (
    tenant       text COLLATE "C" NOT NULL DEFAULT '',
    name         text COLLATE "C" NOT NULL,
    id           bigint NOT NULL,
    at           timestamptz NOT NULL,
    payload      jsonb NOT NULL,
    key          text COLLATE "C",
    actor        text,    -- the application's user, if it said so: SET rota.actor
    role         text,    -- of the database
    source       jsonb,   -- hook, run, table, operation, trigger, webhook
    metadata     jsonb,
    duplicate_of bigint,  -- the event with this key that came first
    deliveries   jsonb,   -- one for each job that is bound to it; NULL: none was
    PRIMARY KEY (tenant, name, id, at)
) PARTITION BY RANGE (at);
CREATE INDEX events_id ON rota.events (id);

INSERT INTO rota.partitioned VALUES ('events', 1);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Keys of events that have a period of their own.
CREATE TABLE rota.event_keys (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    event_id   bigint NOT NULL,
    event_at   timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, name, key)
);
CREATE INDEX event_keys_expired ON rota.event_keys (expires_at);

-- Bindings: what rota.jobs says, so that an event finds it by one look.
CREATE TABLE rota.event_bindings (
    pattern      text COLLATE "C" NOT NULL,  -- a name, or with * for any characters
    job          text COLLATE "C" NOT NULL,
    is_pattern   boolean NOT NULL,
    like_pattern text COLLATE "C" NOT NULL,
    filter       jsonb,
    has_values   jsonb,
    test         jsonpath,
    PRIMARY KEY (pattern, job)
);
CREATE INDEX event_bindings_patterns ON rota.event_bindings (like_pattern) WHERE is_pattern;

-- An event's pattern as one of LIKE: * stands for any characters.
-- Called by: follow_bindings, replay_events, sql/events/list.sql, sql/events/list_named.sql,
-- sql/events/list_named_oldest.sql, sql/events/list_oldest.sql.
CREATE FUNCTION rota.like_event(pattern text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT replace(replace(replace(replace(pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')
$$;

-- Jobs that are bound to the event, and whether they get this one: by one of their bindings, if several match.
-- Called by: deliver, emit_many.
CREATE FUNCTION rota.bound_jobs(event text, payload jsonb)
RETURNS TABLE (job text, fits boolean, is_enabled boolean, rule jsonb, queue text) LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT b.job, bool_or((b.has_values IS NULL OR bound_jobs.payload @> b.has_values)
        AND (b.test IS NULL OR coalesce(bound_jobs.payload @@ b.test, false))),
           j.is_enabled, j.event_delivery, j.queue
    FROM (SELECT e.job, e.has_values, e.test FROM rota.event_bindings e
        WHERE e.pattern = bound_jobs.event AND NOT e.is_pattern
          UNION ALL
          SELECT p.job, p.has_values, p.test FROM rota.event_bindings p
          WHERE p.is_pattern AND bound_jobs.event LIKE p.like_pattern) b
    JOIN rota.jobs j ON j.name = b.job
    GROUP BY b.job, j.is_enabled, j.event_delivery, j.queue ORDER BY b.job
$$;

-- rota.event_bindings holds what the jobs say in events and event_filters, made ready for emit.
-- Called by: after_job.
CREATE FUNCTION rota.follow_bindings(new rota.jobs, old rota.jobs) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF OLD.name IS NOT NULL THEN
        DELETE FROM rota.event_bindings b WHERE b.job = OLD.name
            AND (NEW.name IS NULL OR NEW.deleted_from_code_at IS NOT NULL
            OR b.pattern <> ALL (NEW.events));
    END IF;
    IF NEW.name IS NOT NULL AND NEW.deleted_from_code_at IS NULL THEN
        INSERT INTO rota.event_bindings AS b (pattern, job, is_pattern, like_pattern, filter, has_values, test)
        SELECT e.name, NEW.name, strpos(e.name, '*') > 0, rota.like_event(e.name), f.filter,
               nullif(rota.filter_values(f.filter), '{}'), rota.filter_test(f.filter)::jsonpath
        FROM (SELECT DISTINCT n FROM unnest(NEW.events) AS n) AS e (name)
        CROSS JOIN LATERAL (SELECT nullif(NEW.event_filters -> e.name, '{}') AS filter) f
        ON CONFLICT (pattern, job) DO UPDATE SET filter = excluded.filter, has_values = excluded.has_values,
            test = excluded.test
        WHERE b.filter IS DISTINCT FROM excluded.filter;
    END IF;
END $$;

-- Refuses what cannot be the name of an event.
-- Called by: check_job, refuse_event.
CREATE FUNCTION rota.check_event(event text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF event !~ '^\S{1,200}$' IS NOT FALSE THEN
        RAISE EXCEPTION 'the name of an event must have 1 to 200 characters and no spaces, not %',
            coalesce(quote_literal(event), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example order.paid.';
    END IF;
END $$;

-- Refuses a filter of events (RO002).
-- Called by: filter_test.
CREATE FUNCTION rota.bad_filter(what text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    RAISE EXCEPTION 'a filter %', what USING ERRCODE = 'RO002',
        HINT = 'Write for example {"status": "paid", "total": {">=": 100}}. The operators are =, !=, <, <=, >, >=, in, '
        'not_in, exists.';
END $$;

-- Whether a value of a filter is an object of operators, and not a value to be equal to.
-- Called by: filter_test, filter_values.
CREATE FUNCTION rota.is_comparison(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'object'
                THEN EXISTS (SELECT FROM jsonb_object_keys(value) k
                    WHERE k IN ('=', '!=', '<', '<=', '>', '>=', 'in', 'not_in', 'exists'))
                ELSE false END
$$;

-- The part of a filter that compares, as the text of a jsonpath; NULL: none.
-- Called by: check_event_filters, fits, follow_bindings.
CREATE FUNCTION rota.filter_test(filter jsonb, place text DEFAULT '$') RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    one   record;
    test  record;
    here  text;
    parts text[] := '{}';
BEGIN
    FOR one IN SELECT * FROM jsonb_each(filter) LOOP
        here := place || '.' || to_json(one.key)::text;
        IF NOT rota.is_comparison(one.value) THEN
            IF jsonb_typeof(one.value) = 'object' THEN
                parts := parts || rota.filter_test(one.value, here);
            END IF;
            CONTINUE;
        END IF;
        FOR test IN SELECT * FROM jsonb_each(one.value) LOOP
            IF test.key IN ('in', 'not_in') THEN
                IF jsonb_typeof(test.value) <> 'array' OR test.value = '[]'
                   OR jsonb_path_exists(test.value, 'strict $[*] ? (@.type() == "object" || @.type() == "array")') THEN
                    PERFORM rota.bad_filter(format('compares "%s" by %s with %s, which is not a list of plain values',
                        one.key, test.key, test.value));
                END IF;
                parts := parts || (CASE test.key WHEN 'in' THEN '(' ELSE '!(' END
                    || (SELECT string_agg(format('%s == %s', here, v.value), ' || ')
                        FROM jsonb_array_elements(test.value) v) || ')');
            ELSIF test.key = 'exists' THEN
                IF jsonb_typeof(test.value) <> 'boolean' THEN
                    PERFORM rota.bad_filter(format('tests "%s" by exists, which must be true or false, not %s', one.key,
                        test.value));
                END IF;
                parts := parts || (CASE WHEN test.value = 'true' THEN '' ELSE '!' END || format('exists(%s)', here));
            ELSIF test.key IN ('=', '!=', '<', '<=', '>', '>=') THEN
                IF jsonb_typeof(test.value) IN ('object', 'array') THEN
                    PERFORM rota.bad_filter(format('compares "%s" by %s with %s, which is not a plain value', one.key,
                        test.key, test.value));
                END IF;
                parts := parts || CASE test.key WHEN '!=' THEN format('!(%s == %s)', here, test.value)
                    ELSE format('(%s %s %s)', here, CASE test.key WHEN '=' THEN '==' ELSE test.key END, test.value) END;
            ELSE
                PERFORM rota.bad_filter(format('compares "%s" by the unknown operator "%s"', one.key, test.key));
            END IF;
        END LOOP;
    END LOOP;
    RETURN nullif(array_to_string(array_remove(parts, NULL), ' && '), '');
END $$;

-- The part of a filter that says what must be there, for @>.
-- Called by: fits, follow_bindings.
CREATE FUNCTION rota.filter_values(filter jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    one   record;
    found jsonb := '{}';
    inner_part jsonb;
BEGIN
    FOR one IN SELECT * FROM jsonb_each(filter) LOOP
        CONTINUE WHEN rota.is_comparison(one.value);
        IF jsonb_typeof(one.value) = 'object' AND one.value <> '{}' THEN
            inner_part := rota.filter_values(one.value);
            CONTINUE WHEN inner_part = '{}';
        ELSE
            inner_part := one.value;
        END IF;
        found := found || jsonb_build_object(one.key, inner_part);
    END LOOP;
    RETURN found;
END $$;

-- Whether a payload fits a filter; for psql and replays. What an event starts is decided by what event_bindings has
-- made ready.
-- Called by: users.
CREATE FUNCTION rota.fits(payload jsonb, filter jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT payload @> rota.filter_values(coalesce(filter, '{}'))
        AND coalesce(payload @@ rota.filter_test(coalesce(filter, '{}'))::jsonpath,
            rota.filter_test(coalesce(filter, '{}')) IS NULL)
$$;

-- Filters follow the code until somebody touches them.
-- Called by: before_job.
CREATE FUNCTION rota.check_event_filters(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one record;
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'event_filters' AND NOT NEW.edited ? 'event_filters' THEN
        NEW.event_filters := NEW.code -> 'event_filters';
    END IF;
    IF jsonb_typeof(NEW.event_filters) IS DISTINCT FROM 'object' THEN
        PERFORM rota.bad_job(NEW.name, 'event_filters must be a JSON object',
            'It maps events to filters: {"order.*": {"status": "paid"}}.');
    END IF;
    FOR one IN SELECT * FROM jsonb_each(NEW.event_filters) LOOP
        IF jsonb_typeof(one.value) <> 'object' THEN
            PERFORM rota.bad_job(NEW.name, format('the filter of event "%s" must be a JSON object', one.key));
        END IF;
        PERFORM rota.filter_test(one.value)::jsonpath;
    END LOOP;
    RETURN NEW;
END $$;

-- Says in words what emit has found wrong.
-- Called by: emit, emit_many.
CREATE FUNCTION rota.refuse_event(event text, payload jsonb, tenant text, key text, metadata jsonb,
    key_seconds double precision, period_seconds double precision, most_bytes bigint) RETURNS void
        LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    PERFORM rota.check_event(refuse_event.event);
    IF strpos(event, '*') > 0 THEN
        RAISE EXCEPTION 'event "%" contains a *, which only the patterns of bindings may contain', event
            USING ERRCODE = 'RO002', HINT = 'Emit a full name, such as order.paid.';
    ELSIF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', event,
            coalesce(jsonb_typeof(payload), 'NULL')
            USING ERRCODE = 'RO018', COLUMN = 'payload', HINT = 'Write for example {"order_id": 7}.';
    ELSIF pg_column_size(payload) > most_bytes THEN
        RAISE EXCEPTION 'the payload of event "%" has % bytes; the limit is %', event, pg_column_size(payload),
            most_bytes
            USING ERRCODE = 'RO018', COLUMN = 'payload', HINT = 'Store the data elsewhere and send a reference to it.';
    ELSIF tenant IS NULL OR length(tenant) > 200 THEN
        RAISE EXCEPTION 'the tenant of event "%" must have at most 200 characters', event
            USING ERRCODE = 'RO002', COLUMN = 'tenant';
    ELSIF key = '' OR length(key) > 400 THEN
        RAISE EXCEPTION 'the key of event "%" must have 1 to 400 characters', event
            USING ERRCODE = 'RO002', COLUMN = 'key';
    ELSIF key IS NULL AND num_nonnulls(key_seconds, period_seconds) > 0 THEN
        RAISE EXCEPTION '% of event "%" needs a key',
            CASE WHEN key_seconds IS NULL THEN 'period_seconds' ELSE 'key_seconds' END, event
            USING ERRCODE = 'RO002', COLUMN = 'key';
    ELSIF num_nonnulls(key_seconds, period_seconds) > 1 THEN
        RAISE EXCEPTION 'key_seconds and period_seconds of event "%" cannot be combined', event
            USING ERRCODE = 'RO002', CONSTRAINT = 'two_key_periods',
                HINT = 'period_seconds counts from the event, key_seconds from the end of each run.';
    ELSIF (key_seconds BETWEEN 0 AND 'infinity') IS FALSE OR key_seconds = 'NaN'
        OR (key_seconds > 3153600000 AND key_seconds < 'infinity') THEN
        RAISE EXCEPTION 'key_seconds % of event "%" is not between 0 and 3153600000, or infinity', key_seconds, event
            USING ERRCODE = 'RO002', COLUMN = 'key_seconds';
    ELSIF period_seconds NOT BETWEEN 0.001 AND 3153600000 OR period_seconds = 'NaN' THEN
        RAISE EXCEPTION 'period_seconds % of event "%" is not between 0.001 and 3153600000', period_seconds, event
            USING ERRCODE = 'RO002', COLUMN = 'period_seconds';
    ELSIF jsonb_typeof(metadata) <> 'object' THEN
        RAISE EXCEPTION 'the metadata of event "%" must be a JSON object, not %', event, jsonb_typeof(metadata)
            USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'the hook of event "%" must have at most 200 characters, and its source must be a JSON object',
        event USING ERRCODE = 'RO002';
END $$;

-- Whether the day of an event has a partition; it has, unless no worker has run for a week.
-- Called by: emit, emit_many.
CREATE FUNCTION rota.has_event_room(at timestamptz) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT to_regclass('rota.events_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL
$$;

-- What triggered_by says of the runs of an event.
-- Called by: emit, emit_many, replay_bursts, replay_events.
CREATE FUNCTION rota.event_trigger(event text, event_id bigint, actor text, role text, source jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('type', 'event', 'event', event, 'event_id', event_id, 'actor', actor,
        'role', role))
        || coalesce(source, '{}')
$$;

-- What the runs of an event get as their payload: one without any leaves it to each job's default payload.
-- Called by: deliver, deliver_bursts, emit_many, replay_events.
CREATE FUNCTION rota.event_payload(payload jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(nullif(payload, '{}'), 'null')
$$;

-- Keeps an event, and starts one run, in the caller's transaction, of each enabled job that is bound to it and whose
-- filter it fits. A key makes it happen once for each of them, as with enqueue; with a period it holds for events of
-- the same name, or for all of one `key_scope`.
-- Called by: sql/events/emit.sql, tell_dead_letter, users, watch_row.
CREATE FUNCTION rota.emit(
    event text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', key text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, parent_run_id bigint DEFAULT NULL, hook text DEFAULT NULL,
    period_seconds double precision DEFAULT NULL, source jsonb DEFAULT NULL, key_scope text DEFAULT NULL
) RETURNS TABLE (job text, run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made  record;
    first record;
    told  jsonb;
BEGIN
    -- The event that nobody listens to is one statement: each expression more is made ready anew in each transaction.
    INSERT INTO rota.events (tenant, name, id, at, payload, key, source, actor, role)
    SELECT emit.tenant, emit.event, nextval('rota.event_ids'), statement_timestamp() + s.clock_offset, emit.payload,
        emit.key, emit.source, nullif(current_setting('rota' || '.actor', true), ''),
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END
    FROM rota.settings s
    WHERE length(emit.event) BETWEEN 1 AND 200 AND emit.event !~ '[\s*]' AND jsonb_typeof(emit.payload) = 'object'
      AND pg_column_size(emit.payload) <= s.payload_bytes AND length(emit.tenant) <= 200
      AND (length(emit.key) BETWEEN 1 AND 400) IS NOT FALSE
      AND num_nonnulls(emit.metadata, emit.key_seconds, emit.parent_run_id, emit.hook, emit.period_seconds) = 0
      AND (jsonb_typeof(emit.source) = 'object') IS NOT FALSE
      AND current_setting('application_name') NOT LIKE 'rota run %'
      AND NOT EXISTS (SELECT FROM rota.event_bindings e WHERE e.pattern = emit.event)
      AND NOT EXISTS (SELECT FROM rota.event_bindings p WHERE p.is_pattern AND emit.event LIKE p.like_pattern)
      AND to_regclass('rota.events_' || to_char((statement_timestamp() + s.clock_offset) AT TIME ZONE 'UTC',
          'YYYYMMDD')) IS NOT NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT nextval('rota.event_ids') AS id, statement_timestamp() + s.clock_offset AS clock, s.payload_bytes,
        nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        nullif(jsonb_strip_nulls(jsonb_build_object('hook', emit.hook,
            'run', coalesce(emit.parent_run_id, (rota.sql_trigger() ->> 'run')::bigint))) || coalesce(emit.source,
                '{}'), '{}') AS source,
        rota.has_event_room(statement_timestamp() + s.clock_offset) AS has_room
    INTO made FROM rota.settings s;
    IF (length(emit.event) BETWEEN 1 AND 200 AND emit.event !~ '[\s*]' AND jsonb_typeof(emit.payload) = 'object'
        AND pg_column_size(emit.payload) <= made.payload_bytes AND length(emit.tenant) <= 200
        AND (emit.key IS NULL OR length(emit.key) BETWEEN 1 AND 400)
        AND (emit.key IS NOT NULL OR num_nonnulls(emit.key_seconds, emit.period_seconds) = 0)
        AND num_nonnulls(emit.key_seconds, emit.period_seconds) < 2
        AND (emit.key_seconds IS NULL OR emit.key_seconds BETWEEN 0 AND 3153600000 OR emit.key_seconds = 'infinity')
        AND (emit.period_seconds IS NULL OR emit.period_seconds BETWEEN 0.001 AND 3153600000)
        AND (emit.metadata IS NULL OR jsonb_typeof(emit.metadata) = 'object')
        AND (emit.source IS NULL OR jsonb_typeof(emit.source) = 'object')
        AND (length(emit.hook) <= 200) IS NOT FALSE) IS NOT TRUE THEN
        PERFORM rota.refuse_event(emit.event, emit.payload, emit.tenant, emit.key, emit.metadata, emit.key_seconds,
            emit.period_seconds, made.payload_bytes);
    END IF;
    IF NOT made.has_room THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    IF emit.period_seconds IS NOT NULL THEN
        INSERT INTO rota.event_keys AS k (tenant, name, key, event_id, event_at, expires_at)
        VALUES (emit.tenant, coalesce(emit.key_scope, emit.event), emit.key, made.id, made.clock,
            rota.after(made.clock, emit.period_seconds))
        ON CONFLICT (tenant, name, key) DO UPDATE SET event_id = excluded.event_id, event_at = excluded.event_at,
            expires_at = excluded.expires_at
        WHERE k.expires_at <= made.clock;
        IF NOT FOUND THEN
            PERFORM nextval('rota.duplicates');
            SELECT k.event_id, e.deliveries INTO first
            FROM rota.event_keys k LEFT JOIN rota.events e ON e.id = k.event_id AND e.at = k.event_at
            WHERE k.tenant = emit.tenant AND k.name = coalesce(emit.key_scope, emit.event) AND k.key = emit.key;
            INSERT INTO rota.events (tenant, name, id, at, payload, key, actor, role, source, metadata, duplicate_of)
            VALUES (emit.tenant, emit.event, made.id, made.clock, emit.payload, emit.key, made.actor, made.role,
                made.source, emit.metadata, first.event_id);
            RETURN QUERY
            SELECT d.value ->> 'job', (d.value ->> 'run')::bigint, true
            FROM jsonb_array_elements(coalesce(first.deliveries, '[]')) d
            WHERE d.value ? 'run';
            RETURN;
        END IF;
    END IF;
    told := rota.deliver(emit.event, made.id, emit.payload, emit.tenant, CASE WHEN emit.period_seconds IS NULL
        THEN emit.key END, emit.key_seconds, emit.metadata,
            rota.event_trigger(emit.event, made.id, made.actor, made.role, made.source), emit.key);
    INSERT INTO rota.events (tenant, name, id, at, payload, key, actor, role, source, metadata, deliveries)
    VALUES (emit.tenant, emit.event, made.id, made.clock, emit.payload, emit.key, made.actor, made.role, made.source,
        emit.metadata, told);
    IF told IS NOT NULL THEN
        RETURN QUERY
        SELECT d.value ->> 'job', (d.value ->> 'run')::bigint, d.value ? 'is_duplicate'
        FROM jsonb_array_elements(told) d WHERE d.value ? 'run';
    END IF;
END $$;

-- Many events of one name in one statement: where nobody listens they are one insert, and else one batch of runs for
-- each job. Returns how many.
-- Called by: users, watch_rows.
CREATE FUNCTION rota.emit_many(event text, payloads jsonb[], tenants text[] DEFAULT NULL, source jsonb DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made   record;
    bound  record;
    fit    record;
    ids    bigint[];
    runs   bigint[];
    twins  boolean[];
    got    jsonb[];
    places bigint[] := '{}';        -- of what each job got, with the place of the event
    told   jsonb[] := '{}';
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock, s.payload_bytes,
        nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        (SELECT w.n FROM unnest(payloads, tenants) WITH ORDINALITY AS w (payload, tenant, n)
         WHERE jsonb_typeof(w.payload) IS DISTINCT FROM 'object' OR pg_column_size(w.payload) > s.payload_bytes
           OR length(w.tenant) > 200
         ORDER BY w.n LIMIT 1) AS wrong
    INTO made FROM rota.settings s;
    IF (length(emit_many.event) BETWEEN 1 AND 200 AND emit_many.event !~ '[\s*]' AND made.wrong IS NULL) IS NOT TRUE
        THEN
        PERFORM rota.refuse_event(emit_many.event, payloads[coalesce(made.wrong, 1)], coalesce(tenants[made.wrong], ''),
            NULL, NULL, NULL, NULL, made.payload_bytes);
    END IF;
    IF NOT rota.has_event_room(made.clock) THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    ids := ARRAY(SELECT nextval('rota.event_ids') FROM generate_series(1, cardinality(payloads)));
    FOR bound IN SELECT b.job, b.is_enabled, b.rule, b.queue FROM rota.bound_jobs(emit_many.event, '{}') b LOOP
        SELECT coalesce(array_agg(w.payload ORDER BY w.n) FILTER (WHERE w.fits), '{}') AS payloads,
               array_agg(coalesce(w.tenant, '') ORDER BY w.n) FILTER (WHERE w.fits) AS tenants,
               array_agg(w.id ORDER BY w.n) FILTER (WHERE w.fits) AS ids, array_agg(w.n ORDER BY w.n)
               FILTER (WHERE w.fits) AS places, coalesce(array_agg(w.n ORDER BY w.n) FILTER (WHERE NOT w.fits),
                   '{}') AS others
        INTO fit
        FROM (SELECT u.*, EXISTS (
                  SELECT FROM rota.event_bindings b
                  WHERE b.job = bound.job AND (b.pattern = emit_many.event
                      OR (b.is_pattern AND emit_many.event LIKE b.like_pattern))
                    AND (b.has_values IS NULL OR u.payload @> b.has_values)
                    AND (b.test IS NULL OR coalesce(u.payload @@ b.test, false))) AS fits
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
            SELECT array_agg(r.run_id ORDER BY r.n), array_agg(r.is_duplicate ORDER BY r.n) INTO runs, twins
            FROM rota.enqueue_many(jobs => ARRAY[bound.job],
                payloads => ARRAY(SELECT rota.event_payload(p.payload)
                    FROM unnest(fit.payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n),
                tenants => fit.tenants, triggered_by => rota.event_trigger(emit_many.event, NULL, made.actor, made.role,
                    emit_many.source)) WITH ORDINALITY AS r (run_id, is_duplicate, n);
            PERFORM rota.name_events(array_agg(r.run_id), array_agg(r.id))
            FROM unnest(runs, fit.ids, twins) AS r (run_id, id, is_twin) WHERE NOT r.is_twin HAVING count(*) > 0;
            got := ARRAY(SELECT jsonb_build_object('job', bound.job, 'run', r.run_id) || CASE WHEN r.is_twin
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END
                FROM unnest(runs, twins) WITH ORDINALITY AS r (run_id, is_twin, n) ORDER BY r.n);
        END IF;
        places := places || fit.places;
        told := told || CASE WHEN bound.is_enabled THEN got
            ELSE ARRAY(SELECT g.one || '{"is_disabled": true}' FROM unnest(got) WITH ORDINALITY AS g (one, n)
                ORDER BY g.n) END;
    END LOOP;
    INSERT INTO rota.events (tenant, name, id, at, payload, actor, role, source, deliveries)
    SELECT coalesce(w.tenant, ''), emit_many.event, w.id, made.clock, w.payload, made.actor, made.role,
        emit_many.source, d.deliveries
    FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS w (payload, tenant, id, n)
    LEFT JOIN (SELECT t.place, jsonb_agg(t.told ORDER BY t.i) AS deliveries
        FROM unnest(places, told) WITH ORDINALITY AS t (place, told, i) GROUP BY t.place) d
        ON d.place = w.n
    ORDER BY w.n;
    RETURN cardinality(payloads);
END $$;

-- Starts what is bound to an event that has its number, and returns the deliveries.
-- Called by: emit.
CREATE FUNCTION rota.deliver(event text, event_id bigint, payload jsonb, tenant text, key text,
    key_seconds double precision, metadata jsonb, triggered_by jsonb, event_key text) RETURNS jsonb
        LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
            told := (SELECT b.told FROM rota.deliver_bursts(one.job, one.rule, one.queue, ARRAY[deliver.event],
                ARRAY[deliver.event_key], ARRAY[deliver.payload], ARRAY[deliver.tenant], ARRAY[deliver.metadata],
                ARRAY[deliver.triggered_by]) b);
        ELSE
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => one.job, payload => rota.event_payload(deliver.payload), key => deliver.key,
                key_seconds => deliver.key_seconds, tenant => deliver.tenant, metadata => deliver.metadata,
                triggered_by => deliver.triggered_by) r;
            IF NOT run.is_duplicate THEN
                PERFORM nextval('rota.event_starts');
            END IF;
            told := jsonb_build_object('job', one.job, 'run', run.run_id) || CASE WHEN run.is_duplicate
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END;
        END IF;
        made := made || (told || CASE WHEN one.is_enabled THEN jsonb '{}' ELSE '{"is_disabled": true}' END);
    END LOOP;
    RETURN nullif(to_jsonb(made), '[]');
END $$;

-- What is wrong with a rule, in words; NULL: nothing.
-- Called by: check_event_delivery.
CREATE FUNCTION rota.delivery_fault(rule jsonb) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN jsonb_typeof(rule) <> 'object' THEN 'must be a JSON object'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(rule) k
            WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key'))
            THEN format('has an unknown option "%s"', (SELECT min(k) FROM jsonb_object_keys(rule) k
                WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key')))
        WHEN (rule ? 'debounce_seconds') = (rule ? 'throttle_seconds')
            THEN 'must have either debounce_seconds or throttle_seconds'
        WHEN rule ? 'longest_seconds' AND NOT rule ? 'debounce_seconds'
            THEN 'has longest_seconds, which requires debounce_seconds'
        WHEN jsonb_path_exists(rule, 'strict $.keyvalue() ? (@.key != "key" && @.value.type() != "number")')
            THEN 'has a time that is not a number of seconds'
        WHEN (coalesce(rule ->> 'debounce_seconds',
            rule ->> 'throttle_seconds'))::numeric NOT BETWEEN 0.001 AND 31536000
            THEN 'has a time that is not between 0.001 and 31536000 seconds (a year)'
        WHEN (rule ->> 'longest_seconds')::numeric NOT BETWEEN (rule ->> 'debounce_seconds')::numeric AND 31536000
            THEN 'has longest_seconds that is not between debounce_seconds and 31536000 (a year)'
        WHEN rule ? 'key' AND jsonb_typeof(rule -> 'key') <> 'string' THEN 'has a key that is not a string'
        WHEN rule ->> 'key' !~ '^[^[:cntrl:]]{1,200}$'
            OR regexp_replace(rule ->> 'key', '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN format('has the key "%s", which is not a valid template', left(rule ->> 'key', 200))
    END
$$;

-- The rule of delivery follows the code until somebody touches it, as filters do.
-- Called by: before_job.
CREATE FUNCTION rota.check_event_delivery(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'event_delivery' AND NOT NEW.edited ? 'event_delivery' THEN
        NEW.event_delivery := NEW.code -> 'event_delivery';
    END IF;
    NEW.event_delivery := nullif(NEW.event_delivery, 'null');
    IF rota.delivery_fault(NEW.event_delivery) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'event_delivery ' || rota.delivery_fault(NEW.event_delivery),
            'Write for example {"debounce_seconds": 5, "longest_seconds": 60, "key": "order:{order_id}"} or '
            '{"throttle_seconds": 60}.');
    END IF;
    RETURN NEW;
END $$;

-- The burst that an event belongs to, among the keys of a job. A template knows what those of limits know, and
-- {event.name} and {event.key}.
-- Called by: deliver_bursts, replay_bursts.
CREATE FUNCTION rota.event_burst(rule jsonb, event text, key text, payload jsonb, job text, queue text, tenant text)
RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT 'event:' || coalesce(rota.fill_key(rule ->> 'key',
        payload || jsonb_build_object('event', jsonb_build_object('name', event, 'key', key)), job, queue, tenant,
        NULL), '')
$$;

-- Delivers events to a job whose rule bundles them; the one way for emits, tables and replays. Of each burst one event
-- is enqueued, however many there are: a load of ten thousand rows is not ten thousand versions of one run. Keys are
-- taken in their order, so that two loads wait for each other and do not deadlock. Returns what each event got, by its
-- place.
-- Called by: deliver, emit_many, replay_bursts.
CREATE FUNCTION rota.deliver_bursts(
    job text, rule jsonb, queue text, events text[], keys text[], payloads jsonb[], tenants text[], metadatas jsonb[],
    causes jsonb[]
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
                rota.event_burst(deliver_bursts.rule, u.event, u.key, u.payload, deliver_bursts.job,
                    deliver_bursts.queue, coalesce(u.tenant, '')) AS key
            FROM unnest(deliver_bursts.events, deliver_bursts.keys, deliver_bursts.payloads, deliver_bursts.tenants,
                deliver_bursts.metadatas, deliver_bursts.causes) WITH ORDINALITY AS u (event, key, payload, tenant,
                metadata, cause, n)
        ), bursts AS (
            SELECT g.tenant, g.key, array_agg(g.n ORDER BY g.n) AS places, CASE WHEN is_debounced THEN max(g.n)
                ELSE min(g.n) END AS chosen
            FROM given g GROUP BY g.tenant, g.key
        )
        SELECT b.tenant, b.key, b.places, b.chosen, g.payload, g.metadata, g.cause FROM bursts b
        JOIN given g ON g.n = b.chosen ORDER BY b.tenant, b.key
    LOOP
        SELECT r.run_id, r.is_duplicate INTO run
        FROM rota.enqueue_run(job => deliver_bursts.job, payload => rota.event_payload(burst.payload), key => burst.key,
            on_conflict => CASE WHEN is_debounced THEN 'debounce' ELSE 'throttle' END,
            delay => make_interval(secs => (deliver_bursts.rule ->> 'debounce_seconds')::double precision),
            key_seconds => coalesce(deliver_bursts.rule ->> 'longest_seconds',
                deliver_bursts.rule ->> 'throttle_seconds')::double precision,
            tenant => burst.tenant, metadata => burst.metadata,
            triggered_by => burst.cause || CASE WHEN is_debounced
                THEN jsonb_build_object('debounced', cardinality(burst.places)) ELSE '{}' END) r;
        IF NOT run.is_duplicate THEN
            PERFORM nextval('rota.event_starts');
        ELSIF is_debounced THEN
            -- It has the payload of the last event now, and says which that was.
            UPDATE rota.open_runs o SET triggered_by = burst.cause || jsonb_build_object('debounced',
                cardinality(burst.places)
                + CASE jsonb_typeof(o.triggered_by -> 'debounced') WHEN 'number'
                    THEN (o.triggered_by ->> 'debounced')::numeric ELSE 0 END)
            WHERE o.id = run.run_id;
        END IF;
        PERFORM count(nextval('rota.duplicates')) FROM generate_series(2, cardinality(burst.places));
        shared := CASE WHEN is_debounced THEN '{"debounced": true, "is_duplicate": true}'
            ELSE jsonb_build_object('is_duplicate', true, 'throttled_until', (SELECT k.expires_at FROM rota.keys k
                WHERE k.tenant = burst.tenant AND k.job = deliver_bursts.job AND k.key = burst.key)) END;
        RETURN QUERY
        SELECT p, jsonb_build_object('job', deliver_bursts.job, 'run', run.run_id) || CASE
            WHEN p <> burst.chosen OR run.is_duplicate THEN shared
            WHEN is_debounced THEN shared - 'is_duplicate' ELSE '{}' END
        FROM unnest(burst.places) p;
    END LOOP;
END $$;

-- What became of an event, in a word.
-- Called by: sql/events/list.sql, sql/events/list_named.sql, sql/events/list_named_oldest.sql,
-- sql/events/list_oldest.sql.
CREATE FUNCTION rota.event_outcome(deliveries jsonb, duplicate_of bigint) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT CASE WHEN duplicate_of IS NOT NULL THEN 'duplicate'
                WHEN jsonb_typeof(deliveries) IS DISTINCT FROM 'array' OR deliveries = '[]' THEN 'unbound'
                WHEN jsonb_path_exists(deliveries,
                    '$[*] ? (exists(@.run) && !(@.is_duplicate == true) && !(@.debounced == true))') THEN 'started'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && @.debounced == true)') THEN 'debounced'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && exists(@.throttled_until))')
                    THEN 'throttled'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run))') THEN 'duplicate'
                ELSE 'filtered' END
$$;

-- Delivers events that are kept to a job as if it had been bound to them. None goes to the same job twice, unless
-- `again` says so. Where the job is bound to the event, its filters hold. Those that another transaction holds are
-- left out and counted.
-- Called by: sql/events/replay.sql, users.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.replay_events(
    job text, event text DEFAULT NULL, ids bigint[] DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, tenant text DEFAULT NULL, again boolean DEFAULT false,
    dry_run boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    OUT events bigint, OUT started bigint, OUT delivered_before bigint, OUT filtered bigint, OUT held bigint,
    OUT joined bigint
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    most  constant integer := 10000;
    who   constant text := rota.who(replay_events.actor);
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
        RAISE EXCEPTION 'pass either event or ids' USING ERRCODE = 'RO002';
    END IF;
    found := ARRAY(
        SELECT e.id FROM rota.events e
        WHERE (replay_events.ids IS NULL OR e.id = ANY (replay_events.ids))
          AND (replay_events.event IS NULL OR e.name = replay_events.event
               OR (strpos(replay_events.event, '*') > 0 AND e.name LIKE rota.like_event(replay_events.event)))
          AND (replay_events.since IS NULL OR e.at >= replay_events.since)
          AND (replay_events.until IS NULL OR e.at < replay_events.until)
          AND (replay_events.tenant IS NULL OR e.tenant = replay_events.tenant) AND e.duplicate_of IS NULL
        ORDER BY e.id LIMIT most + 1);
    events := cardinality(found);
    IF events > most THEN
        RAISE EXCEPTION 'more than % events match', most
            USING ERRCODE = 'RO002', CONSTRAINT = 'too_many_events', DETAIL = jsonb_build_object('most', most),
                HINT = 'Replay them in parts: narrow since and until.';
    END IF;
    held := events;
    FOR one IN EXECUTE 'SELECT e.* FROM rota.events e WHERE e.id = ANY ($1) ORDER BY e.id' || CASE
        WHEN replay_events.dry_run THEN '' ELSE ' FOR UPDATE SKIP LOCKED' END
        USING found
    LOOP
        held := held - 1;
        fits := (SELECT bool_or((b.has_values IS NULL OR one.payload @> b.has_values)
            AND (b.test IS NULL OR coalesce(one.payload @@ b.test, false)))
                 FROM rota.event_bindings b
                 WHERE b.job = replay_events.job AND (b.pattern = one.name
                     OR (b.is_pattern AND one.name LIKE b.like_pattern)));
        IF NOT replay_events.again AND jsonb_path_exists(coalesce(one.deliveries, '[]'),
                '$[*] ? (@.job == $job && exists(@.run))', jsonb_build_object('job', replay_events.job)) THEN
            delivered_before := delivered_before + 1;
        ELSIF NOT fits THEN
            filtered := filtered + 1;
        ELSIF def.rule IS NOT NULL THEN
            ready := array_append(ready, one.id);
        ELSE
            started := started + 1;
            CONTINUE WHEN replay_events.dry_run;
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => replay_events.job, payload => rota.event_payload(one.payload),
                tenant => one.tenant, metadata => one.metadata,
                triggered_by => rota.event_trigger(one.name, one.id, one.actor, one.role,
                one.source) || jsonb_build_object('replayed_by', who)) r;
            IF run.is_duplicate THEN
                started := started - 1;
                joined := joined + 1;
            ELSE
                PERFORM nextval('rota.event_starts');
            END IF;
            UPDATE rota.events e
            SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
                || jsonb_build_object('job', replay_events.job, 'run', run.run_id, 'replayed_by', who, 'replayed_at',
                    rota.now())
            WHERE e.tenant = one.tenant AND e.name = one.name AND e.id = one.id AND e.at = one.at;
        END IF;
    END LOOP;
    IF ready <> '{}' THEN
        started := rota.replay_bursts(def.name, def.rule, def.queue, ready, who, replay_events.dry_run);
        joined := cardinality(ready) - started;
    END IF;
    IF NOT replay_events.dry_run THEN
        PERFORM rota.write_audit(replay_events.actor, 'event.replayed', 'job', replay_events.job, NULL,
            jsonb_strip_nulls(jsonb_build_object(
            'event', replay_events.event, 'ids', to_jsonb(replay_events.ids[1:100]), 'since', replay_events.since,
            'until', replay_events.until, 'again', nullif(replay_events.again, false), 'started', started, 'joined',
            nullif(joined, 0), 'delivered_before', delivered_before, 'filtered', filtered, 'held', held)),
            replay_events.reason, coalesce(replay_events.tenant, ''));
    END IF;
END $$;

-- Replays these events in bursts, and returns how many runs that started, or would.
-- Called by: replay_events.
CREATE FUNCTION rota.replay_bursts(job text, rule jsonb, queue text, ids bigint[], who text, dry_run boolean)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    given record;
    made  bigint;
BEGIN
    IF replay_bursts.dry_run THEN
        RETURN (SELECT count(DISTINCT (e.tenant,
            rota.event_burst(replay_bursts.rule, e.name, e.key, e.payload, replay_bursts.job, replay_bursts.queue,
            e.tenant)))
                FROM rota.events e WHERE e.id = ANY (replay_bursts.ids));
    END IF;
    SELECT array_agg(e.name ORDER BY e.id) AS names, array_agg(e.key ORDER BY e.id) AS keys,
        array_agg(e.payload ORDER BY e.id) AS payloads, array_agg(e.tenant ORDER BY e.id) AS tenants,
        array_agg(e.metadata ORDER BY e.id) AS metadatas, array_agg(e.id ORDER BY e.id) AS ids,
        array_agg(e.at ORDER BY e.id) AS times, array_agg(rota.event_trigger(e.name, e.id, e.actor, e.role, e.source)
            || jsonb_build_object('replayed_by', replay_bursts.who) ORDER BY e.id) AS causes
    INTO given FROM rota.events e WHERE e.id = ANY (replay_bursts.ids);
    WITH told AS MATERIALIZED (
        SELECT b.place, b.told FROM rota.deliver_bursts(replay_bursts.job, replay_bursts.rule, replay_bursts.queue,
            given.names, given.keys, given.payloads, given.tenants, given.metadatas, given.causes) b
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

-- Removes keys of events that are over, a portion at a time: what retention removes of events beside their
-- partitions.
-- Called by: sql/retention/prune_event_keys.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_event_keys(before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM rota.event_keys k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.event_keys o WHERE o.expires_at < before_at ORDER BY o.expires_at LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- How many ever: counted without a row.
CREATE SEQUENCE rota.hook_refused;

-- What came to a webhook and was refused, without what it said: how often, by minute, so that a flood has few rows.
CREATE TABLE rota.hook_refusals (
    tenant   text COLLATE "C" NOT NULL DEFAULT '',
    hook     text COLLATE "C" NOT NULL,
    reason   text COLLATE "C" NOT NULL,
    address  text COLLATE "C" NOT NULL,
    minute   timestamptz NOT NULL,
    refusals bigint NOT NULL DEFAULT 1,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, hook, minute, reason, address)
);
CREATE INDEX hook_refusals_minute ON rota.hook_refusals (minute);

-- Counts a refused call of a webhook, one row for each minute, reason and address.
-- Called by: operations/events.py.
CREATE FUNCTION rota.refuse_hook(hook text, reason text, address text, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO rota.hook_refusals AS r (tenant, hook, reason, address, minute, last_at)
    VALUES (refuse_hook.tenant, left(refuse_hook.hook, 200), refuse_hook.reason, left(refuse_hook.address, 100),
        date_trunc('minute', rota.now()), rota.now())
    ON CONFLICT (tenant, hook, minute, reason, address) DO UPDATE
        SET refusals = r.refusals + 1, last_at = excluded.last_at;
    PERFORM nextval('rota.hook_refused');
END $$;

-- Removes old refusals of webhooks, so many at most.
-- Called by: sql/retention/prune_refusals.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_refusals(before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM rota.hook_refusals h WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.hook_refusals o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
