"""How much was logged when: a chart of a search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LogStep:
    """`levels`: lines by level. `is_rough`: there were too many to look at all of them; the numbers
    are those of the part that was, stretched to the whole."""

    at: datetime
    levels: dict[str, int]
    is_rough: bool = False

    @property
    def lines(self) -> int:
        return sum(self.levels.values())


@dataclass(frozen=True, slots=True)
class LogVolume:
    """Steps from `since` to `until`, each `step_seconds` long, the oldest first, empty ones too.

    `counted` lines were counted; `is_all` says whether that is all there are. `jobs` and `workers`
    are those that wrote most of them.
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
        """Lines by level in all steps."""
        names = {level for step in self.steps for level in step.levels}
        return {name: sum(step.levels.get(name, 0) for step in self.steps) for name in names}

    @property
    def lines(self) -> int:
        """All of them; where not all were counted, about so many."""
        return sum(step.lines for step in self.steps)
