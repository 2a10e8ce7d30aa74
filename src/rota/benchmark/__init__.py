"""`rota bench`: how fast Rota is on your own server, beside the floor under it."""

from __future__ import annotations

from rota.benchmark.results import Measurement
from rota.benchmark.run import SCHEMA, run_benchmark

__all__ = ["SCHEMA", "Measurement", "run_benchmark"]
