-- Payload and result as text, with the digits that they have; beyond so many characters not all of it.
SELECT left(p.payload, %(most)s::integer) AS payload, octet_length(p.payload) AS payload_bytes,
       left(p.result, %(most)s::integer) AS result, octet_length(p.result) AS result_bytes
FROM rota.runs r
CROSS JOIN LATERAL (
    -- What is empty takes no two lines.
    SELECT CASE WHEN r.payload IN ('{}', '[]') THEN r.payload::text ELSE jsonb_pretty(r.payload) END AS payload,
           CASE WHEN r.result IN ('{}', '[]') THEN r.result::text ELSE jsonb_pretty(r.result) END AS result
) p
WHERE r.id = %(id)s::bigint
