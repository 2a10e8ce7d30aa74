-- Whether a process of the server still works on what came over a connection that broke: it is known by the mark at the beginning of
-- its statement. One that has been at it for so long waits for a word that will never come.
SELECT EXISTS (SELECT FROM pg_stat_activity a
               WHERE starts_with(a.query, %(mark)s::text) AND a.pid <> pg_backend_pid() AND a.state <> 'idle'
                 AND clock_timestamp() - a.state_change < interval '30 seconds') AS is_writing
