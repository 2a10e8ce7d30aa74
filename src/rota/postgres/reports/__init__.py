"""Reports over all data: overview, statistics, search, why."""
