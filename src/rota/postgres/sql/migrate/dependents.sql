-- The functions, the view or the trigger of a name and all that depends on them: what has to be dropped, and in which order.
WITH RECURSIVE own AS (
    SELECT c.relnamespace AS id, n.nspname AS name FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'rota.migrations'::regclass
), dependent (class, id, depth) AS (
    SELECT 'pg_proc'::regclass::oid, p.oid, 0 FROM pg_proc p JOIN own ON own.id = p.pronamespace
    WHERE %(kind)s = 'function' AND p.proname = %(name)s
    UNION ALL
    SELECT 'pg_class'::regclass::oid, c.oid, 0 FROM pg_class c JOIN own ON own.id = c.relnamespace
    WHERE %(kind)s = 'view' AND c.relname = %(name)s
    UNION ALL
    SELECT 'pg_trigger'::regclass::oid, t.oid, 0
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN own ON own.id = c.relnamespace
    WHERE %(kind)s = 'trigger' AND format('%%s.%%s', c.relname, t.tgname) = %(name)s
    UNION
    -- A rule is a part of its view, and so is the type of its rows; a constraint goes with its trigger.
    SELECT CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(r.ev_class, d.objid),
        x.depth + 1
    FROM dependent x
    JOIN pg_depend d ON d.refclassid = x.class AND d.refobjid = x.id
    LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    WHERE coalesce(r.ev_class, d.objid) <> x.id AND (d.deptype <> 'i' OR d.classid <> 'pg_constraint'::regclass)
)
SELECT format('%%s %%s', o.type, o.identity) AS object, format('DROP %%s %%s', o.type, o.identity) AS command,
    max(d.depth) AS depth,
    o.type IN ('function', 'procedure', 'aggregate', 'view', 'trigger')
        AND split_part(o.identity, ' on ', 1 + (o.type = 'trigger')::integer) LIKE quote_ident(own.name) || '.%%' AS is_ours
FROM dependent d CROSS JOIN own CROSS JOIN LATERAL pg_identify_object(d.class, d.id, 0) o
WHERE o.type NOT IN ('type', 'rule')
GROUP BY o.type, o.identity, own.name ORDER BY max(d.depth) DESC
