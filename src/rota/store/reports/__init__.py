"""Reads over everything: overview, statistics, search, why."""
