"""Figures over time, compared with those of the day before, for charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from rota.errors import InputError
from rota.model.durations import Duration
from rota.model.fields import Check, Field

# The spans, and the step of each; each step divides a day, so that yesterday's steps align.
STEPS: dict[int, int] = {3600: 60, 21_600: 300, 86_400: 900, 604_800: 7200}
DAY = timedelta(days=1)


def _check_span(name: str, seconds: float) -> float:
    if seconds not in STEPS:
        raise InputError(f"a trend cannot cover {seconds:g} s", hint="choose 1h, 6h, 24h or 7d")
    return seconds


Span = Annotated[
    Duration,
    Field(
        "How far back: 1h (intervals of a minute), 6h (5 minutes), 24h (15 minutes) or 7d "
        "(2 hours).",
        "6h",
        metavar="SPAN",
    ),
    Check(_check_span),
]


@dataclass(frozen=True, slots=True)
class Curve:
    """A value for each interval, in order; None if unknown.

    Counts are of attempts that ended in the interval. Quantiles are estimated from buckets: of the
    duration of attempts, and of the time that the first run of each claim had waited. `queued` and
    `running` are the last counts in the interval, `oldest_seconds` is the longest wait measured in
    it.
    """

    succeeded: Annotated[list[int], Field("Attempts that succeeded in each interval.", [117, 120])]
    failed: Annotated[list[int], Field("Attempts that failed, timed out or were lost.", [3, 0])]
    p50_ms: Annotated[
        list[float | None], Field("Median duration; null if no attempt finished.", [61.0, 58.0])
    ]
    p95_ms: Annotated[list[float | None], Field("95th percentile.", [240.0, 220.0])]
    p99_ms: Annotated[list[float | None], Field("99th percentile.", [410.0, 390.0])]
    pickup_p50_ms: Annotated[
        list[float | None],
        Field("Median pick-up latency, from due to claimed; null if not measured.", [4.1, 3.9]),
    ]
    pickup_p95_ms: Annotated[list[float | None], Field("95th percentile.", [84.0, 61.0])]
    pickup_p99_ms: Annotated[list[float | None], Field("99th percentile.", [212.0, 180.0])]
    queued: Annotated[
        list[int | None],
        Field(
            "Backlog at the end of the interval; null if not counted, or for a single job.", [3, 0]
        ),
    ]
    running: Annotated[list[int | None], Field("Running attempts at that time.", [2, 1])]
    oldest_seconds: Annotated[
        list[float | None], Field("Longest wait of a run in the interval.", [1.7, 0.0])
    ]


@dataclass(frozen=True, slots=True)
class Trend:
    """Values for `steps` intervals of `step_seconds` each, starting at `since`; of the last one,
    `last_seconds` have passed. `before` is the same a day earlier.

    `queued`, `running`, `oldest_seconds` and `oldest_queue` are current values.
    """

    at: Annotated[datetime, Field("Current time of the database's clock.", "2026-03-08T09:59:30Z")]
    since: Annotated[datetime, Field("Start of the first interval.", "2026-03-08T09:58:00Z")]
    step_seconds: Annotated[int, Field("Interval length.", 60)]
    steps: Annotated[int, Field("Number of intervals.", 2)]
    last_seconds: Annotated[float, Field("Elapsed seconds of the last interval.", 30.0)]
    now: Annotated[Curve, Field("Values, one for each interval.")]
    before: Annotated[Curve, Field("The same, a day earlier.")]
    queued: Annotated[int, Field("Runs waiting now.", 3)]
    running: Annotated[int, Field("Attempts running now.", 2)]
    oldest_seconds: Annotated[
        float | None, Field("Age of the oldest run that a worker may take.", 1.7)
    ]
    oldest_queue: Annotated[str | None, Field("Queue of the oldest run.", "mail")]

    def per_minute(self, counts: list[int]) -> list[float]:
        """Counts per interval as rates per minute. The last interval is divided by the time that
        has passed, but at least half of its length: a few seconds say little about a minute."""
        whole = self.step_seconds / 60
        rates = [count / whole for count in counts]
        if rates:
            rates[-1] = counts[-1] / (max(self.last_seconds, self.step_seconds / 2) / 60)
        return rates


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a trend: whole ones, the last of which contains the present moment."""

    since: datetime
    until: datetime
    seconds: int

    @property
    def count(self) -> int:
        return int((self.until - self.since).total_seconds()) // self.seconds

    @property
    def unit(self) -> str:
        return "hour" if self.seconds % 3600 == 0 else "minute"

    def place(self, at: datetime) -> int:
        return int((at - self.since).total_seconds()) // self.seconds

    def earlier(self, by: timedelta) -> Steps:
        return Steps(self.since - by, self.until - by, self.seconds)


def steps_of(span: timedelta, now: datetime) -> Steps:
    seconds = STEPS[round(span.total_seconds())]
    begun = int(now.timestamp()) // seconds * seconds
    until = datetime.fromtimestamp(begun + seconds, UTC)
    return Steps(until - span, until, seconds)
