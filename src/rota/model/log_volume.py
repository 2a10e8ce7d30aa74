"""The number of log lines over time: the chart of a search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LogStep:
    """`levels`: lines by level. `is_rough`: there were too many lines to read all of them; the
    numbers are extrapolated from a sample."""

    at: datetime
    levels: dict[str, int]
    is_rough: bool = False

    @property
    def lines(self) -> int:
        return sum(self.levels.values())


@dataclass(frozen=True, slots=True)
class LogVolume:
    """Log lines in intervals of `step_seconds` from `since` to `until`, oldest first, empty ones
    included.

    `counted` is the number of lines counted; `is_all` says whether these are all. `jobs` and
    `workers` are those that wrote most of them.
    """

    since: datetime
    until: datetime
    step_seconds: float
    steps: list[LogStep]
    counted: int
    is_all: bool
    jobs: dict[str, int]
    workers: dict[int, int]

    @property
    def levels(self) -> dict[str, int]:
        """Lines by level, in all intervals."""
        names = {level for step in self.steps for level in step.levels}
        return {name: sum(step.levels.get(name, 0) for step in self.steps) for name in names}

    @property
    def lines(self) -> int:
        """The total number of lines; an estimate if not all were counted."""
        return sum(step.lines for step in self.steps)
