-- Compares the counters of limits with the runs; answers how many differed.
SELECT rota.mend_limits()
