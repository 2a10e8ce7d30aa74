"""Runs that keep coming, at 70 % of the throughput of the same worker when nobody enqueues.

The enqueuer takes its part of the machine, as in life. Whoever keeps up is done with the last run
moments after its enqueue; who does not has a backlog to work off.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes, figures_of
from bench.systems.base import System

_SHARE = 0.7


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        with system.workers(1) as workers:
            rate = int(workers.work_off(sizes.runs).rate * _SHARE)
            found = workers.sustain(rate, sizes.sustained_seconds)
        return {**figures_of(found.measured), "behind ms": found.behind * 1000}

    name = f"{_SHARE:.0%} for {sizes.sustained_seconds} s"
    return [Case(name, measure, lambda system: system.has_steady)]


PHASE = Phase("sustained", cases)
