"""How the system stands: overview, statistics, attention, doctor, audit, why."""
