-- Where code and database differ: what the next sync would write, and what stays because somebody changed it.
WITH wanted AS MATERIALIZED (
    SELECT * FROM rota.read_definitions(%(jobs)s::text::jsonb)
), schedules AS MATERIALIZED (
    SELECT * FROM rota.read_schedules(%(jobs)s::text::jsonb, %(names)s::text[])
), declared AS MATERIALIZED (
    -- By app.schedule.
    SELECT d.tenant, d.name, d.document ->> 'job' AS job,
           rota.pick(to_jsonb(jsonb_populate_record(NULL::rota.schedules, d.document)), d.document - 'job') AS code
    FROM jsonb_to_recordset(%(declared)s::text::jsonb) AS d (tenant text, name text, document jsonb)
), renamed AS MATERIALIZED (
    SELECT * FROM rota.renamed_in_code(%(application)s::text, %(jobs)s::text::jsonb, %(names)s::text[])
), found AS (
    SELECT 'job' AS kind, r.new_name AS name, r.new_name AS job, NULL AS field, 'renamed' AS change, NULL::jsonb AS code,
           to_jsonb(r.old_name) AS stored, NULL::text AS changed_by, NULL::timestamptz AS changed_at
    FROM renamed r
    UNION ALL
    SELECT 'job', w.name, w.name, NULL, 'new', NULL, NULL, NULL, NULL
    FROM wanted w WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = w.name)
      AND w.name NOT IN (SELECT r.new_name FROM renamed r)
    UNION ALL
    SELECT 'job', j.name, j.name, c.key, CASE WHEN j.edited ? c.key THEN 'kept' ELSE 'follows' END, c.value, to_jsonb(j) -> c.key,
           j.edited -> c.key ->> 'by', rota.edited_at(j.edited -> c.key)
    FROM wanted w JOIN rota.jobs j ON j.name = w.name CROSS JOIN LATERAL jsonb_each(w.code) c
    WHERE to_jsonb(j) -> c.key IS DISTINCT FROM c.value
    UNION ALL
    SELECT 'job', j.name, j.name, 'payload_schema', 'follows', w.payload_schema, j.payload_schema, NULL, NULL
    FROM wanted w JOIN rota.jobs j ON j.name = w.name WHERE j.payload_schema <> w.payload_schema
    UNION ALL
    SELECT 'job', j.name, j.name, 'executor', 'follows', to_jsonb(w.executor), to_jsonb(j.executor), NULL, NULL
    FROM wanted w JOIN rota.jobs j ON j.name = w.name WHERE j.executor <> w.executor
    UNION ALL
    SELECT 'job', j.name, j.name, NULL, 'revived', NULL, NULL, NULL, j.deleted_from_code_at
    FROM wanted w JOIN rota.jobs j ON j.name = w.name WHERE j.deleted_from_code_at IS NOT NULL
    UNION ALL
    SELECT 'job', g, g, NULL, 'gone', NULL, NULL, NULL, NULL FROM rota.gone_jobs(%(application)s::text, %(names)s::text[], true) g
    WHERE g NOT IN (SELECT r.old_name FROM renamed r)
    UNION ALL
    SELECT 'schedule', w.name, w.job, NULL, CASE WHEN d.name IS NULL THEN 'new' ELSE 'deleted' END, NULL, NULL, d.deleted_by, d.deleted_at
    FROM schedules w LEFT JOIN rota.deleted_schedules d ON d.tenant = '' AND d.name = w.name AND d.kept_out = 'definition'
    WHERE NOT EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = '' AND s.name = w.name)
      -- Those that are named like their job get its new name with it.
      AND NOT EXISTS (SELECT FROM renamed r JOIN rota.schedules s ON s.job = r.old_name AND s.tenant = ''
                      WHERE r.new_name = w.job AND s.origin = 'definition'
                        AND w.name = r.new_name || substr(s.name, length(r.old_name) + 1) AND starts_with(s.name, r.old_name))
    UNION ALL
    SELECT 'schedule', w.name, w.job, NULL, 'taken', NULL, NULL, s.updated_by, s.updated_at
    FROM schedules w JOIN rota.schedules s ON s.tenant = '' AND s.name = w.name AND s.origin IS DISTINCT FROM 'definition'
        AND s.application IS DISTINCT FROM %(application)s::text
    UNION ALL
    SELECT 'schedule', s.name, s.job, c.key, CASE WHEN c.key = ANY (rota.kept_fields(s.edited)) THEN 'kept' ELSE 'follows' END,
           c.value, to_jsonb(s) -> c.key, s.edited -> c.key ->> 'by', rota.edited_at(s.edited -> c.key)
    FROM schedules w JOIN rota.schedules s ON s.tenant = '' AND s.name = w.name AND s.origin = 'definition'
    CROSS JOIN LATERAL jsonb_each(w.code) c
    WHERE to_jsonb(s) -> c.key IS DISTINCT FROM c.value
    UNION ALL
    SELECT 'schedule', s.name, s.job, NULL, 'gone', NULL, NULL, NULL, NULL
    FROM rota.schedules s
    WHERE s.origin = 'definition' AND s.job = ANY (%(names)s::text[]) AND s.name NOT IN (SELECT w.name FROM schedules w)
    UNION ALL
    SELECT 'schedule', concat_ws('/', nullif(d.tenant, ''), d.name), d.job, NULL, 'new', NULL, NULL, NULL, NULL
    FROM declared d WHERE NOT EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = d.tenant AND s.name = d.name)
    UNION ALL
    SELECT 'schedule', concat_ws('/', nullif(s.tenant, ''), s.name), s.job, c.key,
           CASE WHEN c.key = ANY (rota.kept_fields(s.edited)) THEN 'kept' ELSE 'follows' END,
           c.value, to_jsonb(s) -> c.key, s.edited -> c.key ->> 'by', rota.edited_at(s.edited -> c.key)
    FROM declared d JOIN rota.schedules s ON s.tenant = d.tenant AND s.name = d.name AND s.origin IS DISTINCT FROM 'definition'
    CROSS JOIN LATERAL jsonb_each(d.code) c
    WHERE to_jsonb(s) -> c.key IS DISTINCT FROM c.value
    UNION ALL
    -- What it does meanwhile: its state, or why its times start nothing.
    SELECT 'schedule', concat_ws('/', nullif(s.tenant, ''), s.name), s.job, NULL, 'left', NULL, to_jsonb(CASE
           WHEN v.state NOT IN ('active', 'pending') THEN v.state WHEN s.is_shadow THEN 'shadow'
           ELSE coalesce(rota.job_refusal(s.job), v.state) END), NULL, NULL
    FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
    WHERE s.origin = 'code' AND s.application = %(application)s::text
      AND NOT EXISTS (SELECT FROM declared d WHERE d.tenant = s.tenant AND d.name = s.name)
    UNION ALL
    SELECT 'queue', w.name, '', c.key, CASE WHEN q.declared_when_full IS NULL AND q.max_waiting IS NULL THEN 'new'
           WHEN q.is_edited OR q.declared_when_full IS NULL THEN 'kept' ELSE 'follows' END, c.value, to_jsonb(q) -> c.key, NULL, NULL
    FROM jsonb_to_recordset(%(queues)s::text::jsonb) AS w (name text, max_waiting bigint, when_full text)
    LEFT JOIN rota.queues q ON q.name = w.name
    CROSS JOIN LATERAL jsonb_each(jsonb_build_object('max_waiting', w.max_waiting, 'when_full', w.when_full)) c
    WHERE coalesce(to_jsonb(q) -> c.key, 'null') IS DISTINCT FROM c.value
)
SELECT * FROM found ORDER BY job COLLATE "C", kind, name COLLATE "C", field COLLATE "C" NULLS FIRST
