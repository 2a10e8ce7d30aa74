"""Reports: overview, statistics, attention, doctor, audit, why."""
