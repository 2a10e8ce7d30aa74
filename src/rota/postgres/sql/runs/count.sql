-- How many of those that list_ids finds, by state and job; `lowest` is the last one counted.
SELECT state, job, count(*) AS runs, min(id) AS lowest FROM (
{runs/list_ids}
) found GROUP BY state, job
