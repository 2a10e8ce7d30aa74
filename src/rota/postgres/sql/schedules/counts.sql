-- How many schedules are in each state, of the first so many that fit: a count has a bound.
SELECT c.state, count(*)::integer AS count
FROM (
    SELECT v.state
    FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
{schedules/fitting}
    LIMIT %(most)s::integer
) c
GROUP BY c.state
