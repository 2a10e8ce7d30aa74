"""What a phase is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.systems.base import Measured, System

Measure = Callable[[System], Mapping[str, float]]


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `quick` is for a look at whether it works."""

    runs: int = 20_000
    backlogs: tuple[int, ...] = (20_000, 100_000)
    idle_seconds: float = 4.0  # a worker that has just started is not idle yet
    singly: int = 2_000
    latency_runs: int = 500
    memory_runs: int = 200_000
    ended: int = 5_000_000
    scheduled: int = 1_000_000
    retained: int = 1_000_000
    calls: int = 200
    dashboards: int = 50
    rest_seconds: float = 10.0
    held_rounds: int = 10
    retention_seconds: float = 100.0
    queues: int = 1_000
    warm_up: int = 2_000
    late_seconds: int = 65  # at least sixty samples
    sustained_seconds: int = 120
    idle_workers: tuple[int, ...] = (1, 4, 16, 50)
    idle_runs: int = 1_000
    tenant_flood: int = 200_000
    is_waiting: bool = True  # for polls to come due
    has_bases: bool = True  # cases that are there to be compared with


# Everything runs once, on as little as makes sense: a start of a program is what takes time here.
QUICK = Sizes(
    runs=200, backlogs=(200,), idle_seconds=0.0, singly=50, latency_runs=10, memory_runs=200,
    ended=1_000, scheduled=500, retained=2_000, calls=1, dashboards=2,
    rest_seconds=0.1, held_rounds=1, retention_seconds=0.0, queues=5,
    warm_up=0, late_seconds=1, sustained_seconds=1, is_waiting=False, has_bases=False,
    idle_workers=(1,), idle_runs=10, tenant_flood=0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """`rows`: which systems take part. `base`: the case of this phase that it is compared with.
    `setup`: what is done once for each system, before the first round."""

    name: str
    measure: Measure
    rows: Callable[[System], bool] = lambda system: True
    base: str | None = None
    setup: Callable[[System], None] | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    cases: Callable[[Sizes], Sequence[Case]]


def only_rota(system: System) -> bool:
    return system.name == "rota"


def figures_of(measured: Measured) -> dict[str, float]:
    """Rate and CPU. Worker and server apart, because they are usually on different machines."""
    found = {
        "runs/s": measured.rate,
        "worker CPU µs/run": measured.worker_cpu / measured.runs * 1e6,
    }
    if measured.server_cpu is not None:
        found["server CPU µs/run"] = measured.server_cpu / measured.runs * 1e6
    return found
