"""Enqueue one by one: one caller, each run in a transaction of its own, each flushed to disk."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes
from bench.systems.base import System


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System, *, is_sync: bool = False) -> dict[str, float]:
        system.fresh()
        return {"runs/s": system.enqueue_one_by_one(sizes.singly, is_sync=is_sync)}

    return [
        Case("async", measure),
        Case("sync", lambda system: measure(system, is_sync=True), lambda one: one.has_sync),
    ]


PHASE = Phase("one", cases)
