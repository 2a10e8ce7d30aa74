"""Throughput: a backlog of runs that do nothing, by one worker process and by two, in the three
ways in which workers meet it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of
from bench.systems.base import Measured, System

Way = Callable[[System, int, int, Sizes], Measured]


def _warm(system: System, runs: int, processes: int, sizes: Sizes) -> Measured:
    return system.work_off(runs, processes=processes)


def _idle(system: System, runs: int, processes: int, sizes: Sizes) -> Measured:
    return system.work_off_by_idle(runs, processes=processes, idle_seconds=sizes.idle_seconds)


def _start(system: System, runs: int, processes: int, sizes: Sizes) -> Measured:
    return system.work_off_by_start(runs, processes=processes)


WAYS: Mapping[str, Way] = {"warm": _warm, "idle, then full": _idle, "full, then start": _start}


def cases(sizes: Sizes) -> Sequence[Case]:
    return [
        Case(
            _name(way, runs, processes),
            _by(way, runs, processes, sizes),
            base=_name(way, runs, 1) if processes > 1 else None,
        )
        for way, runs, processes in product(WAYS, sizes.backlogs, (1, 2))
    ]


def _name(way: str, runs: int, processes: int) -> str:
    return f"{way}, {runs:,}, {processes} process{'es' if processes > 1 else ''}"


def _by(way: str, runs: int, processes: int, sizes: Sizes) -> Measure:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        measured = WAYS[way](system, runs, processes, sizes)
        return figures_of(measured) | (_of_start(measured) if way == "full, then start" else {})

    return measure


def _of_start(measured: Measured) -> dict[str, float]:
    """A process that starts takes its time, whatever it has to do then."""
    if measured.first is None:
        return {}
    return {
        "first start ms": measured.first * 1000,
        "runs/s after it": measured.runs / (measured.seconds - measured.first),
    }


PHASE = Phase("throughput", cases)
