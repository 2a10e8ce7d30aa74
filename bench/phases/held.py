"""Measured again and again while somebody holds a snapshot open: nothing dead can be cleaned.

The same workers take bulk after bulk; each is timed. A queue whose claims walk over what is
already done gets slower from round to round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.phases.base import Case, Measure, Phase, Sizes
from bench.systems.base import Measured, System


@contextmanager
def snapshot(system: System) -> Iterator[None]:
    with system.server.connect(system.database) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # A snapshot is taken by the first statement that needs one.
        conn.execute("SELECT count(*) FROM pg_class")
        yield
        conn.execute("ROLLBACK")


def _rate(rounds: Sequence[Measured]) -> float:
    return sum(one.runs for one in rounds) / sum(one.seconds for one in rounds)


def cases(sizes: Sizes) -> Sequence[Case]:
    def rates(system: System) -> dict[str, float]:
        with system.workers(1) as workers:
            found = [workers.work_off(sizes.runs) for _ in range(sizes.held_rounds)]
        every = {f"round {n} runs/s": one.rate for n, one in enumerate(found, 1)}
        half = len(found) // 2
        change = _rate(found[half:]) / _rate(found[:half]) if half else 1.0
        return {"runs/s": _rate(found), "second/first half": change, **every}

    def when(is_held: bool) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            if not is_held:
                return rates(system)
            with snapshot(system):
                return rates(system)

        return measure

    return [Case("free", when(False)), Case("snapshot held", when(True), base="free")]


PHASE = Phase("held", cases)
