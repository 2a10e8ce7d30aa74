"""Figures over time, compared with those of the day before, for charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rota.errors import InputError

# The spans, and the step of each; each step divides a day, so that yesterday's steps align.
STEPS: dict[int, int] = {3600: 60, 21_600: 300, 86_400: 900, 604_800: 7200}
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Curve:
    """A value for each interval, in order; None if unknown.

    Counts are of attempts that ended in the interval. Quantiles are estimated from buckets: of the
    duration of attempts, and of the time that the first run of each claim had waited. `queued` and
    `running` are the last counts in the interval, `oldest_seconds` is the longest wait measured in
    it.
    """

    succeeded: list[int]
    failed: list[int]
    p50_ms: list[float | None]
    p95_ms: list[float | None]
    p99_ms: list[float | None]
    pickup_p50_ms: list[float | None]
    pickup_p95_ms: list[float | None]
    pickup_p99_ms: list[float | None]
    queued: list[int | None]
    running: list[int | None]
    oldest_seconds: list[float | None]


@dataclass(frozen=True, slots=True)
class Trend:
    """Values for `steps` intervals of `step_seconds` each, starting at `since`; of the last one,
    `last_seconds` have passed. `before` is the same a day earlier.

    `queued`, `running`, `oldest_seconds` and `oldest_queue` are current values.
    """

    at: datetime
    since: datetime
    step_seconds: int
    steps: int
    last_seconds: float
    now: Curve
    before: Curve
    queued: int
    running: int
    oldest_seconds: float | None
    oldest_queue: str | None

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
    """Raise InputError for a span that no chart has."""
    seconds = STEPS.get(round(span.total_seconds()))
    if seconds is None:
        raise InputError(
            f"a trend cannot cover {span.total_seconds():g} s", hint="choose 1 h, 6 h, 24 h or 7 d"
        )
    begun = int(now.timestamp()) // seconds * seconds
    until = datetime.fromtimestamp(begun + seconds, UTC)
    return Steps(until - span, until, seconds)
