"""Measured of one queue, and of the same runs spread over a thousand."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System


def cases(sizes: Sizes) -> Sequence[Case]:
    def over(queues: int) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            return figures_of(system.work_off(sizes.runs, BENCH_QUEUES=str(queues)))

        return measure

    return [
        Case("1 queue", over(1), only_rota),
        Case(f"{sizes.queues:,} queues", over(sizes.queues), only_rota, base="1 queue"),
    ]


PHASE = Phase("queues", cases)
