"""Drain: a backlog of runs that do nothing, by one worker process and by two."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of
from bench.systems.base import System


def cases(sizes: Sizes) -> Sequence[Case]:
    def by(processes: int) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            return figures_of(system.drain(sizes.runs, processes=processes))

        return measure

    return [Case("1 process", by(1)), Case("2 processes", by(2), base="1 process")]


PHASE = Phase("drain", cases)
