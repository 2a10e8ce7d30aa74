"""Error groups: type, place, frequency, and whether they are handled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rota.model.asked import OfJob
from rota.model.exclusion import Exclude
from rota.model.fields import Field

Standing = Literal["new", "back", "known", "handled", "quiet"]
ErrorOrder = Literal["last", "most", "first"]
STANDINGS: tuple[Standing, ...] = ("new", "back", "known", "handled", "quiet")
# Standings that need attention.
OPEN: tuple[Standing, ...] = ("new", "back", "known")


GroupId = Annotated[str, Field("Error group ID.", "5f1c09a2be41", longest=40)]


class ErrorFilters(TypedDict, total=False):
    """Filters of lists of error groups."""

    standings: Annotated[
        str | Sequence[str] | None,
        Field(
            "Filter by standing.",
            "new",
            "Standing",
            short="standing",
            metavar="STANDING",
            choices=dict.fromkeys(STANDINGS, ""),
        ),
    ]
    job: OfJob
    text: Annotated[
        str | Sequence[str] | None,
        Field(
            "Text in the type, message or location; all of them if there are several.",
            "refused",
            shortest=1,
            longest=400,
            metavar="TEXT",
        ),
    ]
    system: Annotated[bool | None, Field("Include errors of Rota's own jobs.", True)]
    exclude: Exclude


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same type, location and message, apart from ids and numbers.

    `standing` is `new` for a day, then `known`; `handled` once an operator has marked it; `back` if
    it recurred after that, or after a week of silence; `quiet` after a week of silence. `failures`
    and `runs` (those that ended as failed) are totals; `recent_…` and `counts` cover only the
    requested range: `counts` in equal intervals, the last one up to now.
    """

    id: Annotated[str, Field("Error group ID; stable across machines.", "5f1c09a2be41")]
    error_type: Annotated[str, Field("Class of the exception.", "ConnectionError")]
    error: Annotated[str, Field("The last message.", "503 from the supplier")]
    file: Annotated[
        str | None, Field("File in the application's code; null if none.", "shop/app.py")
    ]
    line: Annotated[int | None, Field("Line of the last occurrence.", 122)]
    function: Annotated[str | None, Field("Function in the application's code.", "call_supplier")]
    jobs: Annotated[list[str], Field("Jobs that failed.", ["call_supplier"])]
    standing: Annotated[
        Standing,
        Field(
            "`new` for a day, then `known`; `handled`; `back` if it recurred after being handled "
            "or after a week of silence; `quiet` after a week of silence.",
            "back",
        ),
    ]
    first_seen_at: Annotated[datetime, Field("First failure.")]
    last_seen_at: Annotated[datetime, Field("Last failure.")]
    failures: Annotated[int, Field("Number of failures.", 1592)]
    runs: Annotated[int, Field("Number of runs that failed permanently with it.", 398)]
    recent_failures: Annotated[int, Field("Number of failures in the period.", 12)]
    recent_runs: Annotated[int, Field("Number of runs in the period.", 3)]
    share: Annotated[float, Field("Share of all failures in the period, 0 to 1.", 0.4)]
    counts: Annotated[
        list[int], Field("Failures in equal intervals of the period, up to now.", [0, 4, 8])
    ]
    last_run_id: Annotated[int, Field("Run that failed with it last.", 42)]
    returned_at: Annotated[datetime | None, Field("When it last recurred after a week of silence.")]
    quiet_since: Annotated[datetime | None, Field("Last failure before that.")]
    handled_at: Annotated[
        datetime | None, Field("When it was last handled.", "2026-03-01T09:00:00Z")
    ]
    handled_by: Annotated[str | None, Field("Who handled it.", "api:ada")]
    handled_reason: Annotated[str | None, Field("Reason given.", "the supplier knows")]

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

    value: Annotated[str, Field("Value of the field.", "lamp")]
    runs: Annotated[int, Field("Number of runs with this value.", 311)]


@dataclass(frozen=True, slots=True)
class ErrorFacet:
    """What the runs of a group have in common: `name` is `job`, `worker` or `payload.<field>`."""

    name: Annotated[str, Field("`job`, `worker` or `payload.<field>`.", "payload.product")]
    shares: Annotated[list[Share], Field("Most common values.")]


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """A group, the traceback of its last failure, and what the last `looked_at` failed runs have in
    common."""

    group: Annotated[ErrorGroup, Field("The group.")]
    since: Annotated[datetime, Field("Start of the counted period.")]
    traceback: Annotated[
        str | None,
        Field(
            "Traceback of the last failure that has one.", "Traceback (most recent call last): …"
        ),
    ]
    traits: Annotated[list[ErrorFacet], Field("What its last failed runs have in common.")]
    looked_at: Annotated[int, Field("Number of runs examined.", 398)]
