"""How many runs fit a filter: within limits, so that counting never takes long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunCount:
    """So many runs of a job in a state."""

    job: str
    state: str
    runs: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How many runs fit a filter. `is_exact`: all of them; else at least so many, because
    counting has its limits. `cursor` is where it could go on."""

    runs: int
    is_exact: bool
    groups: list[RunCount]
    cursor: int | None = None


@dataclass(frozen=True, slots=True)
class StateCount:
    """Runs of a filter in one state. Not `is_exact`: at least so many."""

    state: str
    runs: int
    is_exact: bool
