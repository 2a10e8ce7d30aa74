-- Everything that makes a schema what it is: one row for each thing that can differ, (kind, name, aspect, text).
-- Functions are named with their arguments, columns by their place among those that are left.
WITH own AS (
    SELECT oid, nspname, nspowner, nspacl FROM pg_namespace WHERE nspname = %(schema)s::text
), relation AS (
    SELECT c.*, CASE c.relkind
        WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'S' THEN 'sequence'
        WHEN 'i' THEN 'index' WHEN 'I' THEN 'index' WHEN 'c' THEN 'type' ELSE c.relkind::text END AS kind
    FROM pg_class c JOIN own ON own.oid = c.relnamespace
), routine AS (
    SELECT p.*, format('%%s(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS signature
    FROM pg_proc p JOIN own ON own.oid = p.pronamespace
), col AS (
    SELECT a.*, r.relname, r.kind, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS place
    FROM pg_attribute a JOIN relation r ON r.oid = a.attrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p', 'v', 'm', 'c')
)
SELECT 'schema', nspname::text, 'owner, rights and comment',
       concat_ws('; ', nspowner::regrole::text, nspacl::text, obj_description(oid, 'pg_namespace')) FROM own
UNION ALL
SELECT 'schema', d.defaclrole::regrole::text, 'default rights on ' || d.defaclobjtype::text, d.defaclacl::text
FROM pg_default_acl d JOIN own ON own.oid = d.defaclnamespace
UNION ALL
SELECT kind, relname::text, 'kind, owner, rights and comment',
       concat_ws('; ', relkind::text, relpersistence::text, relowner::regrole::text, relacl::text,
                 obj_description(oid, 'pg_class')) FROM relation
UNION ALL
SELECT r.kind, r.relname::text, 'storage', concat_ws('; ',
       (SELECT string_agg(one, ', ' ORDER BY one) FROM unnest(r.reloptions || t.reloptions) one), a.amname,
       r.relreplident::text, r.relrowsecurity::text, r.relforcerowsecurity::text)
FROM relation r LEFT JOIN pg_am a ON a.oid = r.relam LEFT JOIN pg_class t ON t.oid = r.reltoastrelid
UNION ALL
SELECT kind, relname::text, 'partitioned by', pg_get_partkeydef(oid) FROM relation WHERE relkind = 'p'
UNION ALL
SELECT r.kind, r.relname::text, 'part of ' || i.inhparent::regclass::text, pg_get_expr(r.relpartbound, r.oid)
FROM relation r JOIN pg_inherits i ON i.inhrelid = r.oid
UNION ALL
SELECT 'view', relname::text, 'definition', pg_get_viewdef(oid) FROM relation WHERE relkind IN ('v', 'm')
UNION ALL
SELECT 'sequence', r.relname::text, 'range', concat_ws('; ', s.seqtypid::regtype::text, s.seqstart::text, s.seqincrement::text,
       s.seqmin::text, s.seqmax::text, s.seqcache::text, s.seqcycle::text,
       (SELECT format('owned by %%s.%%s', d.refobjid::regclass, d.refobjsubid) FROM pg_depend d
        WHERE d.objid = r.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'))
FROM relation r JOIN pg_sequence s ON s.seqrelid = r.oid
UNION ALL
SELECT 'column', format('%%s.%%s', col.relname, col.attname), 'place, type and value', concat_ws('; ', col.place::text,
       format_type(col.atttypid, col.atttypmod), l.collname::text, CASE WHEN col.attnotnull THEN 'not null' END,
       'default ' || pg_get_expr(d.adbin, d.adrelid), 'identity ' || nullif(col.attidentity::text, ''),
       'generated ' || nullif(col.attgenerated::text, ''))
FROM col LEFT JOIN pg_attrdef d ON d.adrelid = col.attrelid AND d.adnum = col.attnum
LEFT JOIN pg_collation l ON l.oid = col.attcollation
UNION ALL
SELECT 'column', format('%%s.%%s', relname, attname), 'storage, rights and comment', concat_ws('; ', attstorage::text,
       nullif(attcompression::text, ''), nullif(coalesce(attstattarget, -1), -1)::text, attoptions::text, attacl::text,
       col_description(attrelid, attnum)) FROM col
UNION ALL
SELECT 'constraint', format('%%s.%%s', coalesce(r.relname, t.typname), c.conname), 'definition',
       concat_ws('; ', pg_get_constraintdef(c.oid), CASE WHEN NOT c.conislocal THEN 'inherited' END,
                 obj_description(c.oid, 'pg_constraint'))
FROM pg_constraint c JOIN own ON own.oid = c.connamespace
LEFT JOIN relation r ON r.oid = c.conrelid LEFT JOIN pg_type t ON t.oid = c.contypid
UNION ALL
SELECT 'index', r.relname::text, 'definition', concat_ws('; ', pg_get_indexdef(r.oid), i.indisvalid::text, i.indisclustered::text,
       i.indisreplident::text) FROM relation r JOIN pg_index i ON i.indexrelid = r.oid
UNION ALL
SELECT 'trigger', format('%%s.%%s', r.relname, t.tgname), 'definition', concat_ws('; ', pg_get_triggerdef(t.oid), t.tgenabled::text,
       obj_description(t.oid, 'pg_trigger'))
FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule', format('%%s.%%s', r.relname, w.rulename), 'definition', pg_get_ruledef(w.oid)
FROM pg_rewrite w JOIN relation r ON r.oid = w.ev_class WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT 'policy', format('%%s.%%s', r.relname, p.polname), 'definition', p::text
FROM pg_policy p JOIN relation r ON r.oid = p.polrelid
UNION ALL
SELECT 'statistics', s.stxname::text, 'definition', pg_get_statisticsobjdef(s.oid)
FROM pg_statistic_ext s JOIN own ON own.oid = s.stxnamespace
UNION ALL
SELECT 'function', signature, 'definition', pg_get_functiondef(oid) FROM routine WHERE prokind <> 'a'
UNION ALL
SELECT 'function', r.signature, 'aggregate', concat_ws('; ', pg_get_function_result(r.oid), a.aggkind::text, a.aggtransfn::text,
       a.aggfinalfn::text, a.aggcombinefn::text, format_type(a.aggtranstype, NULL), a.agginitval, r.provolatile::text,
       r.proparallel::text) FROM routine r JOIN pg_aggregate a ON a.aggfnoid = r.oid
UNION ALL
SELECT 'function', signature, 'owner, rights and comment', concat_ws('; ', proowner::regrole::text,
       (SELECT string_agg(one::text, ',' ORDER BY one::text) FROM unnest(proacl) one),
       obj_description(oid, 'pg_proc')) FROM routine
UNION ALL
SELECT 'type', t.typname::text, 'definition', concat_ws('; ', t.typtype::text, t.typowner::regrole::text, t.typacl::text,
       'of ' || format_type(nullif(t.typbasetype, 0), t.typtypmod), CASE WHEN t.typnotnull THEN 'not null' END, t.typdefault,
       (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
       obj_description(t.oid, 'pg_type'))
FROM pg_type t JOIN own ON own.oid = t.typnamespace
WHERE t.typtype IN ('d', 'e', 'r', 'm')
   OR t.typtype = 'c' AND EXISTS (SELECT FROM relation r WHERE r.oid = t.typrelid AND r.relkind = 'c')
