-- The errors of runs that wait for another attempt, those first that are due first. Pinned: planned while the table was small, it
-- would sort all that waits.
CREATE FUNCTION rota.waiting_errors(most integer) RETURNS TABLE (job text, last_error text) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT o.job, o.last_error FROM rota.open_runs o WHERE o.is_future ORDER BY o.run_at LIMIT most;
END $$;
