-- Compares the counters of limits with the runs; returns how many differed.
SELECT rota.mend_limits()
