"""The number of log lines over time: the chart of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rota.model.log import LogLine

_MOST_NAMES = 8


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

    def beside(self, lines: Sequence[LogLine], *, are_all: bool) -> LogVolume:
        """The volume beside a page of the same search, which a sample may have missed: exact if the
        page has all lines, otherwise at least what is on the page."""
        if self.is_all and not are_all:
            return self
        shown: list[Counter[str]] = [Counter() for _ in self.steps]
        for line in lines:
            n = int((line.at - self.since).total_seconds() / self.step_seconds)
            shown[max(0, min(n, len(shown) - 1))][line.level] += 1
        jobs = Counter(line.job for line in lines)
        workers = Counter(line.worker for line in lines)
        if are_all:
            steps = [LogStep(one.at, dict(n)) for one, n in zip(self.steps, shown, strict=True)]
            return replace(
                self,
                steps=steps,
                counted=len(lines),
                is_all=True,
                jobs=dict(jobs.most_common(_MOST_NAMES)),
                workers=dict(workers.most_common(_MOST_NAMES)),
            )
        return replace(
            self,
            steps=[
                replace(one, levels=dict(n | Counter(one.levels)))
                for one, n in zip(self.steps, shown, strict=True)
            ],
            counted=max(self.counted, len(lines)),
            jobs=dict(jobs | Counter(self.jobs)),
            workers=dict(workers | Counter(self.workers)),
        )
