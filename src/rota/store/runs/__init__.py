"""Runs: read, listed, acted on one by one and in bulk."""
