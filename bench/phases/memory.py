"""Memory of a worker process, warm and after hundreds of thousands of runs: does it grow?"""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes
from bench.systems.base import System

_MB = 1024 * 1024


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        with system.workers(1) as workers:
            workers.work_off(sizes.runs)
            before = workers.memory_bytes()
            left = sizes.memory_runs
            while left > 0:
                workers.work_off(min(left, sizes.runs))
                left -= sizes.runs
            return {"MB before": before / _MB, "MB after": workers.memory_bytes() / _MB}

    return [Case(f"{sizes.memory_runs:,} runs", measure, lambda system: system.has_bodies)]


PHASE = Phase("memory", cases)
