"""The number of runs that match a filter, bounded, so that counting never takes long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunCount:
    """The number of runs of a job in a state."""

    job: str
    state: str
    runs: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How many runs match a filter. If not `is_exact`, the number is a lower bound, because
    counting is limited; `cursor` continues it."""

    runs: int
    is_exact: bool
    groups: list[RunCount]
    cursor: int | None = None


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of matching runs in one state. If not `is_exact`, it is a lower bound."""

    state: str
    runs: int
    is_exact: bool
