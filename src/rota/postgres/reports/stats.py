"""Reads statistics: waiting runs, and attempts by job and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from rota.errors import UnknownJob
from rota.model.fields import Moment
from rota.model.histogram import quantiles
from rota.model.states import OPEN_STATES
from rota.model.stats import Activity, JobActivity, QueueDepth, StateCounts, Stats, Step
from rota.model.window import StatsWindow, bounds, stepped, whole
from rota.postgres.plans import Execute, Plan

_SHARES = (0.99, 0.95, 0.5)


def read_stats(
    *,
    job: str | None,
    queue: str | None,
    since: Moment | None,
    until: Moment | None,
    step: float | None,
    most_jobs: int,
) -> Plan[Stats]:
    filters = {"job": job, "queue": queue}
    depths = yield from read_depths(filters)
    clock = (yield Execute("stats/clock", {"job": job}))[0]
    if job is not None and not clock["is_job"]:
        raise UnknownJob(f'no job is named "{job}"')
    now = clock["at"].astimezone(UTC)
    range_ = whole(*bounds(since, until, now))
    window, steps = stepped(range_, step)
    ended = (yield Execute("stats/ended", filters))[0]
    asked = _range(window) | {"step": steps} | filters
    total, *rows = yield Execute("stats/series", asked, is_large=True)

    @cache
    def series() -> list[Step]:
        return _steps(rows, steps, now)

    days = {"first_day": range_.first_day, "last_day": range_.last_day, "limit": most_jobs}
    jobs = yield Execute(
        "stats/jobs", _range(range_) | days | filters, is_large=True, meanwhile=series
    )
    return Stats(
        at=now,
        counted_at=now - timedelta(seconds=depths.age),
        since=range_.since,
        until=min(range_.until, now),
        step_seconds=steps,
        states=_states(depths, ended),
        oldest_queued_seconds=_oldest(depths.queues),
        queues=depths.queues,
        total=_activity(total, range_.elapsed(now)),
        jobs=[JobActivity(row["job"], _activity(row, range_.elapsed(now))) for row in jobs],
        series=series(),
    )


class Depths(NamedTuple):
    """Waiting and running runs, and the number of expired ones whose end is not written yet. `age`
    is the age of the counts in seconds."""

    queues: list[QueueDepth]
    expired: int
    age: float


def read_depths(filters: Mapping[str, str | None]) -> Plan[Depths]:
    all_of_them, *rows = yield Execute("stats/depths", dict(filters))
    expired = sum(row.pop("expired") for row in rows)
    queues = [QueueDepth(**row) for row in rows if any(row[name] for name in OPEN_STATES)]
    return Depths(queues, expired, max(0.0, all_of_them["oldest_seconds"]))


def _steps(rows: Sequence[Mapping[str, Any]], step: int, now: datetime) -> list[Step]:
    over = now - timedelta(seconds=step)
    steps = []
    for row in rows:
        at = row["at"].astimezone(UTC)  # in the session's time zone an hour may occur twice
        elapsed = step if at <= over else max(1.0, (now - at).total_seconds())
        steps.append(Step(at, _activity(row, elapsed)))
    return steps


def _oldest(depths: Sequence[QueueDepth]) -> float | None:
    ages = [it.oldest_seconds for it in depths if it.oldest_seconds is not None]
    return max(ages, default=None)


def _range(window: StatsWindow) -> dict[str, Any]:
    return {"since": window.since, "until": window.until, "unit": window.unit}


def _states(depths: Depths, ended: Mapping[str, int]) -> StateCounts:
    queues = depths.queues
    return StateCounts(
        blocked=sum(it.blocked for it in queues),
        scheduled=sum(it.scheduled for it in queues),
        queued=sum(it.queued for it in queues),
        running=sum(it.running for it in queues),
        succeeded=ended["succeeded"],
        failed=ended["failed"],
        cancelled=ended["cancelled"] + depths.expired,
    )


def _activity(row: Mapping[str, Any], seconds: float) -> Activity:
    """Convert a row. There may be a step for every minute of a day: this is most of the work in
    Python."""
    attempts, succeeded, longest = row["attempts"], row["succeeded"], row["longest_ms"]
    if not attempts:
        return Activity(0, 0, 0, 0, 0, 0, 0, 0.0, None, None, None, None, None, None)
    failed, timed_out, lost = row["failed"], row["timed_out"], row["lost"]
    bad = failed + timed_out + lost
    found = quantiles(row["histogram"], attempts, _SHARES, longest / 1000)
    p99, p95, p50 = [None if it is None else it * 1000 for it in found]
    return Activity(
        attempts=attempts,
        succeeded=succeeded,
        failed=failed,
        timed_out=timed_out,
        lost=lost,
        snoozed=row["snoozed"],
        cancelled=row["cancelled"],
        per_second=attempts / seconds,
        failure_rate=bad / (bad + succeeded) if bad + succeeded else None,
        average_ms=row["duration_ms"] / attempts,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        longest_ms=longest,
    )
