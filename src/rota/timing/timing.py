"""When a schedule runs, as one value that all other code uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Final, Literal, Self, get_args

from rota.errors import TimingError
from rota.model.planned import Planned
from rota.model.schedule import Schedule
from rota.timing import interval as intervals
from rota.timing.cron import CronRule, expand
from rota.timing.dst import Fold, Gap
from rota.timing.interval import IntervalRule
from rota.timing.nominal import EARLIEST, Nominal, in_utc
from rota.timing.once import OnceRule
from rota.timing.zones import zone

Kind = Literal["cron", "interval", "once"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GAPS, _FOLDS = get_args(Gap), get_args(Fold)
_WORDS = (
    "cron",
    "interval_seconds",
    "run_at",
    "timezone",
    "gap",
    "fold",
    "start_at",
    "end_at",
    "with_seconds",
    "anchor",
)
_TICK = timedelta(microseconds=1)
# Periods before the end that are searched for the latest time, without listing all earlier ones.
_LOOKS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))


@dataclass(frozen=True, slots=True)
class Timing:
    """Exactly one of `cron`, `interval` and `run_at`, in a zone, within optional bounds.

    Create it with `Timing.of`, which checks everything. Timings with the same values are equal. All
    methods take aware instants and return UTC.
    """

    cron: str | None = None
    interval: timedelta | None = None
    run_at: datetime | None = None
    timezone: str = "UTC"
    gap: Gap = "run_after"
    fold: Fold = "first"
    start_at: datetime | None = None
    end_at: datetime | None = None
    with_seconds: bool = False
    anchor: datetime = EPOCH
    rule: CronRule | IntervalRule | OnceRule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", self._rule())

    @classmethod
    def of(
        cls,
        *,
        cron: str | None = None,
        interval_seconds: float | str | Decimal | timedelta | None = None,
        run_at: datetime | None = None,
        timezone: str = "UTC",
        gap: Gap = "run_after",
        fold: Fold = "first",
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        with_seconds: bool = False,
        anchor: datetime | None = None,
    ) -> Self:
        """Read the timing of a schedule. `@every 90s` in `cron` is an interval.

        An interval counts from `start_at`, else from `anchor` (when the schedule was made), else
        from the start of 1970 in UTC, so that an hour falls on the hour. Both bounds are included.
        """
        _check_one(cron=cron, interval_seconds=interval_seconds, run_at=run_at)
        _check_word("gap", gap, _GAPS)
        _check_word("fold", fold, _FOLDS)
        step = None if interval_seconds is None else intervals.step_of(interval_seconds)
        if isinstance(cron, str):
            step = intervals.every(cron)
            cron = " ".join(cron.split()) if step is None else None
        start, end = _utc("start_at", start_at), _utc("end_at", end_at)
        once = _utc("run_at", run_at)
        _check_bounds(start, once, end)
        counted_from = start or _utc("anchor", anchor) or EPOCH
        return cls(
            cron=cron,
            interval=step,
            run_at=once,
            timezone=timezone,
            gap=gap,
            fold=fold,
            start_at=start,
            end_at=end,
            with_seconds=with_seconds,
            anchor=EPOCH if step is None else counted_from,
        )

    @staticmethod
    def kept(it: Schedule | Planned) -> Timing:
        """Return the timing of a schedule, cached: ticks need the same ones again and again. The
        zone is part of the key, so that reloaded zone data takes effect."""
        return _of(
            zone(it.timezone),
            it.cron,
            it.interval_seconds,
            it.run_at,
            it.timezone,
            it.gap,
            it.fold,
            it.start_at,
            it.end_at,
            it.has_seconds,
            it.anchor_at,
        )

    def _rule(self) -> CronRule | IntervalRule | OnceRule:
        tz = zone(self.timezone)  # checked for every kind: times are shown in it
        if self.cron is not None:
            return CronRule(self.cron, tz, self.gap, self.fold, self.with_seconds)
        if self.interval is not None:
            return IntervalRule(self.interval, self.anchor)
        if self.run_at is not None:
            return OnceRule(self.run_at)
        raise TimingError("a timing needs cron, interval_seconds or run_at")

    @property
    def kind(self) -> Kind:
        if self.cron is not None:
            return "cron"
        return "once" if self.interval is None else "interval"

    @property
    def tz(self) -> tzinfo:
        return zone(self.timezone)

    @property
    def fields(self) -> str | None:
        """The cron expression with its macro expanded."""
        return None if self.cron is None else expand(self.cron)

    def anchored(self, at: datetime) -> Timing:
        """Return the timing counted from `at`, for intervals from the end of the last run."""
        return replace(self, anchor=in_utc(at, "anchor"))

    def after(self, instant: datetime) -> datetime | None:
        """Return the first nominal time strictly after the instant; None if there is none."""
        for nominal in self.times(instant):
            if not nominal.is_skipped:
                return nominal.at
        return None

    def between(
        self, after: datetime, until: datetime, limit: int, *, include_skipped: bool = False
    ) -> list[Nominal]:
        """Return the nominal times in (after, until], oldest first, at most `limit`.

        With `include_skipped` also those that `gap="skip"` omits, so that they can be recorded;
        they have no instant of their own, and `at` is when they would have run.
        """
        return list(islice(self._within(after, until, include_skipped), max(0, limit)))

    def count_between(self, after: datetime, until: datetime, cap: int = 100_000) -> int:
        """Count the times in (after, until]: for intervals by arithmetic, else up to `cap`."""
        if isinstance(self.rule, IntervalRule):
            return self.rule.count(self._floor(after), self._ceiling(until))
        return sum(1 for _ in islice(self._within(after, until), cap))

    def latest_between(self, after: datetime, until: datetime) -> Nominal | None:
        """Return the last time in (after, until], without listing those before it."""
        floor, ceiling = self._floor(after), self._ceiling(until)
        if isinstance(self.rule, IntervalRule):
            return self.rule.latest(floor, ceiling)
        for look in _LOOKS:
            start = max(floor, max(ceiling, EARLIEST + look) - look)
            last_seen = _last(self._within(start, until))
            if last_seen or start == floor:
                return last_seen
        return _last(self._within(after, until))

    def clipped(self, after: datetime, until: datetime) -> tuple[datetime, datetime]:
        """Return the period clipped to the bounds of the timing."""
        return self._floor(after), self._ceiling(until)

    def times(self, after: datetime) -> Iterator[Nominal]:
        """Yield all nominal times strictly after the instant, including skipped ones; may be
        endless."""
        times = self.rule.times(self._floor(after))
        if self.end_at is None:
            return times
        end = self.end_at
        return takewhile(lambda nominal: nominal.at <= end, times)

    def _within(
        self, after: datetime, until: datetime, include_skipped: bool = False
    ) -> Iterator[Nominal]:
        ceiling = self._ceiling(until)
        for nominal in self.times(after):
            if nominal.at > ceiling:
                return
            if include_skipped or not nominal.is_skipped:
                yield nominal

    def _floor(self, after: datetime) -> datetime:
        """Return the instant strictly after which times count: `start_at` itself is included."""
        floor = max(in_utc(after, "after"), EARLIEST)
        return max(floor, self.start_at - _TICK) if self.start_at else floor

    def _ceiling(self, until: datetime) -> datetime:
        ceiling = in_utc(until, "until")
        return min(ceiling, self.end_at) if self.end_at else ceiling


@lru_cache(maxsize=20_000)
def _of(tz: tzinfo, *values: Any) -> Timing:
    """Make a timing from values in the order of `kept`, by position: looking up a dozen keywords
    costs more than a tick."""
    return Timing.of(**dict(zip(_WORDS, values, strict=True)))


def _last(times: Iterator[Nominal]) -> Nominal | None:
    last = None
    for last in times:  # noqa: B007  the last value is the result
        pass
    return last


def _utc(name: str, instant: datetime | None) -> datetime | None:
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise TimingError(f"{name} must be a date and time, not {instant!r}")
    return in_utc(instant, name)


def _check_one(**given: object) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        found = " and ".join(names) or "none"
        raise TimingError(f"a timing needs exactly one of {', '.join(given)}, found {found}")


def _check_word(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TimingError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _check_bounds(start: datetime | None, once: datetime | None, end: datetime | None) -> None:
    """Refuse a timing without any possible time."""
    for earlier, later, text in (
        (start, end, "end_at {1} is before start_at {0}"),
        (start, once, "run_at {1} is before start_at {0}"),
        (once, end, "run_at {0} is after end_at {1}"),
    ):
        if earlier and later and earlier > later:
            raise TimingError(
                text.format(earlier.isoformat(), later.isoformat()), field=text.partition(" ")[0]
            )
