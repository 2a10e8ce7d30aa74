"""Runs: reading and listing them, and actions on single runs and in bulk."""
