"""Measured by the other ways of calling a body: a thread, and a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System


def cases(sizes: Sizes) -> Sequence[Case]:
    def by(job: str) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            return figures_of(system.work_off(sizes.runs, BENCH_JOB=job))

        return measure

    return [
        Case("async", by("noop"), only_rota),
        Case("thread", by("noop_thread"), only_rota, base="async"),
        Case("process", by("noop_process"), only_rota, base="async"),
    ]


PHASE = Phase("executors", cases)
