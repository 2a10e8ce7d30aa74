"""Things that need attention, each compared with what is usual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from rota.model.fields import Field

LEAST_SLOW_SECONDS = 60.0
# With this many attempts the p99 is meaningful; with fewer, only the longest duration is used.
_ENOUGH, _FEW = 20, 3
_CLEAN_MINUTES = 5


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One item that needs attention, as a sentence: `noun`, `name`, `says`.

    `state` is its state in one word, `subject` the type of object, `figures` the numbers in the
    sentence, `command` the command that fixes it or shows more.
    """

    kind: Annotated[str, Field("Kind of item: `failing_job`, `paused_queue`, …", "paused_queue")]
    state: Annotated[
        str, Field("State in one word: `failed`, `paused`, `late`, `lost`, `warn`, …", "paused")
    ]
    subject: Annotated[
        str,
        Field("Type of object: `job`, `queue`, `schedule`, `run`, `worker` or `limit`.", "queue"),
    ]
    name: Annotated[str, Field("Name, or run ID.", "mail")]
    noun: Annotated[str, Field("Start of the sentence, before the name.", "Queue")]
    says: Annotated[
        str,
        Field(
            "Rest of the sentence, with the figures and what is usual.",
            "is paused: 12 runs wait, the oldest for 2 h 14 min",
        ),
    ]
    reason: Annotated[
        str | None,
        Field("Reason, or the last error; null if unknown.", "by grace: “provider is down”"),
    ] = None
    since: Annotated[datetime | None, Field("Since when.", "2026-03-08T07:45:00Z")] = None
    tenant: Annotated[str, Field("Tenant; empty: no tenant.", "")] = ""
    figures: Annotated[
        dict[str, Any], Field("Figures in the sentence.", {"waiting": 12, "oldest_seconds": 8040.0})
    ] = field(default_factory=dict)
    command: Annotated[
        str | None, Field("Command to fix or inspect it.", "rota queues resume mail")
    ] = None

    @property
    def sentence(self) -> str:
        return " ".join(part for part in (self.noun, self.name, self.says) if part)

    @property
    def substance(self) -> tuple[object, ...]:
        """The values whose change is news; the duration of the problem is not one of them."""
        counts = [(name, it) for name, it in self.figures.items() if not isinstance(it, float)]
        return (self.kind, self.name, self.tenant, self.state, self.since, self.reason, counts)


@dataclass(frozen=True, slots=True)
class KindCount:
    """The number of items of one kind, listed or not."""

    kind: Annotated[str, Field("Kind of item.", "paused_queue")]
    subject: Annotated[str, Field("Type of object.", "queue")]
    state: Annotated[str, Field("Current state.", "paused")]
    count: Annotated[int, Field("Number of items, listed or not.", 1)]


@dataclass(frozen=True, slots=True)
class Attention:
    """Everything that needs attention, most severe first. Of each kind only the first few are
    listed; `total` counts them all."""

    at: Annotated[datetime, Field("Current time of the database's clock.")]
    total: Annotated[int, Field("Number of items that need attention.", 1)]
    needs: Annotated[
        list[AttentionItem], Field("First items of each kind, most severe kind first.")
    ]
    kinds: Annotated[list[KindCount], Field("Number of items of each kind.")]


@dataclass(frozen=True, slots=True)
class Minute:
    """The good and bad ends of a job in one minute."""

    at: datetime
    good: int
    bad: int


def is_unusual(bad: int, good: int, usual_bad: float, usual_good: float) -> bool:
    """Return whether the number of failures is unusual. `usual_…` are averages per hour. If every
    attempt fails, it always is."""
    if bad == 0:
        return False
    if good == 0:
        return True
    usual_share = usual_bad / (usual_bad + usual_good) if usual_bad + usual_good else 0.0
    expected = usual_share * (bad + good)
    if bad >= 2 and bad >= good:
        return bad > 2 * expected
    return bad > 3 * expected and bad > expected + 4 * math.sqrt(expected + 1)


def began(minutes: Sequence[Minute]) -> datetime | None:
    """Return since when a job has been failing: its first bad minute after it last worked well,
    which means a few minutes in a row with work and without a failure."""
    first: datetime | None = None
    clean = 0
    for minute in minutes:
        if minute.bad:
            first = first or minute.at
            clean = 0
        elif minute.good:
            clean += 1
            if clean >= _CLEAN_MINUTES:
                first = None
    return first


def is_slow(seconds: float, attempts: int, p99: float | None, longest: float) -> bool:
    """Return whether a run that has taken this long is slower than usual; False if there is no
    history yet."""
    if seconds < LEAST_SLOW_SECONDS or attempts < _FEW:
        return False
    if attempts < _ENOUGH or p99 is None:
        return seconds > 3 * longest
    return seconds > max(2 * p99, 1.2 * longest)


def ago(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)
