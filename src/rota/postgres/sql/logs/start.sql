-- What a search begins with: the clock, the names of the job, and the text as a query. hints: every word that a match must contain somewhere,
-- because looking for letters is four times as fast as taking a line apart. strangers: where there are only words that must
-- not occur, one of each of them; a line that has none of these letters need not be taken apart. Plans are made for the
-- values at hand: only then do partial indexes and the bounds of partitions count. A table without statistics must not be
-- read whole. To start parallel workers takes longer than any step.
SELECT rota.now() AS now, rota.names_of(%(job)s::text) AS jobs, q.query::text AS query, q.query IS NULL AS is_wordless,
       ARRAY(SELECT '%%' || replace(replace(replace(h, '\', '\\'), '%%', '\%%'), '_', '\_') || '%%'
             FROM unnest(%(wanted)s::text[] || f.words) w CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector('simple', rota.plain_words(rtrim(w, '*'))))) h) AS hints,
       CASE WHEN %(wanted)s::text[] || f.words = '{}' THEN ARRAY(
           SELECT (SELECT '%%' || replace(replace(replace(h, '\', '\\'), '%%', '\%%'), '_', '\_') || '%%'
                   FROM unnest(tsvector_to_array(to_tsvector('simple', rota.plain_words(u)))) h ORDER BY length(h) DESC LIMIT 1)
           FROM unnest(%(unwanted)s::text[]) u) ELSE '{}' END AS strangers,
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true)
FROM (SELECT ARRAY(SELECT v FROM unnest(%(values)s::text[]) v WHERE numnode(phraseto_tsquery('simple', rota.plain_words(v))) > 0) AS words) f
CROSS JOIN LATERAL (SELECT rota.log_query(%(wanted)s::text[] || f.words, %(unwanted)s::text[]) AS query) q
