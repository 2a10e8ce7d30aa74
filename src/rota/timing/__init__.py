"""When to run: pure functions of instants. No database, no clock; only zone data is read."""

from __future__ import annotations

from rota.timing.nominal import Nominal
from rota.timing.timing import Timing

__all__ = ["Nominal", "Timing"]
