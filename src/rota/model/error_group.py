"""Error groups: type, place, frequency, and whether they are handled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

Standing = Literal["new", "back", "known", "handled", "quiet"]
ErrorOrder = Literal["last", "most", "first"]
STANDINGS: tuple[Standing, ...] = ("new", "back", "known", "handled", "quiet")
# Standings that need attention.
OPEN: tuple[Standing, ...] = ("new", "back", "known")


class ErrorFilters(TypedDict, total=False):
    """Filters of `app.errors.list`, for type checkers. `text` matches the type, the message or the
    location."""

    standings: tuple[Standing, ...] | None
    job: str | None
    text: str | None
    system: bool


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same type, location and message, apart from ids and numbers.

    `standing` is `new` for a day, then `known`; `handled` once an operator has marked it; `back` if
    it recurred after that, or after a week of silence; `quiet` after a week of silence. `failures`
    and `runs` (those that ended as failed) are totals; `recent_…` and `counts` cover only the
    requested range: `counts` in equal intervals, the last one up to now.
    """

    id: str
    error_type: str
    error: str
    file: str | None
    line: int | None
    function: str | None
    jobs: list[str]
    standing: Standing
    first_seen_at: datetime
    last_seen_at: datetime
    failures: int
    runs: int
    recent_failures: int
    recent_runs: int
    share: float
    counts: list[int]
    last_run_id: int
    returned_at: datetime | None
    quiet_since: datetime | None
    handled_at: datetime | None
    handled_by: str | None
    handled_reason: str | None

    @property
    def place(self) -> str | None:
        """`app.py:122`"""
        if self.file is None:
            return None
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def is_open(self) -> bool:
        return self.standing in OPEN


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """One page of a list. `standings` counts the groups by standing, regardless of the filter by
    standing; `since` is the start of the counted range."""

    groups: list[ErrorGroup]
    cursor: tuple[object, ...] | None
    standings: dict[str, int]
    since: datetime
    failures: int


@dataclass(frozen=True, slots=True)
class Share:
    """The number of examined runs that have this value."""

    value: str
    runs: int


@dataclass(frozen=True, slots=True)
class Trait:
    """What the runs of a group have in common: `name` is `job`, `worker` or `payload.<field>`."""

    name: str
    shares: list[Share]


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """A group, the traceback of its last failure, and what the last `looked_at` failed runs have in
    common."""

    group: ErrorGroup
    since: datetime
    traceback: str | None
    traits: list[Trait]
    looked_at: int
