"""Pick-up latency: one run every 20 ms on a worker that has nothing else to do.

From the return of the enqueue, which is after its commit, to the start of the body. One machine,
so both read the same clock. A body may start before its enqueuer hears of the commit: that is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes
from bench.systems.base import System

_PACE_MS = 20
_WARM_UP = 25


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        waits = system.latency(sizes.latency_runs + _WARM_UP, _PACE_MS)[_WARM_UP:]
        if not waits:
            raise RuntimeError("no body started")
        waits = sorted(max(0.0, wait * 1000) for wait in waits)
        return {"p50 ms": waits[len(waits) // 2], "p99 ms": waits[int(len(waits) * 0.99)]}

    return [Case(f"every {_PACE_MS} ms", measure, lambda system: system.has_bodies)]


PHASE = Phase("latency", cases)
