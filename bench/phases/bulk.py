"""Enqueue in bulk: all runs in one transaction, from the call to its return."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes
from bench.systems.base import System


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        return {"runs/s": system.enqueue_bulk(sizes.runs)}

    return [Case("one transaction", measure)]


PHASE = Phase("bulk", cases)
