-- Which of these lines are there.
SELECT l.run_id, l.attempt, l.seq
FROM unnest(%(runs)s::bigint[], %(attempts)s::integer[], %(seqs)s::integer[]) w (run_id, attempt, seq)
JOIN rota.logs l ON l.run_id = w.run_id AND l.attempt = w.attempt AND l.seq = w.seq AND l.at >= %(since)s::timestamptz
