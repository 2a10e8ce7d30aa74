"""Reading figures: what waits, what was done, by job and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from rota.errors import UnknownJob
from rota.model.histogram import quantiles
from rota.model.stats import Activity, JobActivity, QueueDepth, StateCounts, Stats, Step
from rota.model.window import Window, bounds, stepped, whole
from rota.store.plans import Ask, Plan

# While a worker lives it counts every few seconds; without one, whoever asks does.
STALE_SECONDS = 15.0
_SHARES = (0.99, 0.95, 0.5)


def read_stats(
    *,
    job: str | None,
    queue: str | None,
    since: datetime | timedelta | None,
    until: datetime | None,
    step: int | None,
    most_jobs: int,
) -> Plan[Stats]:
    yield Ask("upkeep/count_depths", {"seconds": STALE_SECONDS})
    clock = (yield Ask("stats/clock", {"job": job}))[0]
    if job is not None and not clock["is_job"]:
        raise UnknownJob(f'no job is named "{job}"')
    now = clock["at"].astimezone(UTC)
    range_ = whole(*bounds(since, until, now))
    window, steps = stepped(range_, step)
    filters = {"job": job, "queue": queue}
    depths = [QueueDepth(**row) for row in (yield Ask("stats/depths", filters))]
    ended = (yield Ask("stats/ended", filters))[0]
    asked = _range(window) | {"step": steps} | filters
    total, *rows = yield Ask("stats/series", asked, is_large=True)

    @cache
    def series() -> list[Step]:
        return _steps(rows, steps, now)

    days = {"first_day": range_.first_day, "last_day": range_.last_day, "limit": most_jobs}
    jobs = yield Ask("stats/jobs", _range(range_) | days | filters, is_large=True, meanwhile=series)
    return Stats(
        at=now,
        counted_at=clock["counted_at"],
        since=range_.since,
        until=min(range_.until, now),
        step_seconds=steps,
        states=_states(depths, ended),
        oldest_queued_seconds=_oldest(depths),
        queues=depths,
        total=_activity(total, range_.elapsed(now)),
        jobs=[JobActivity(row["job"], _activity(row, range_.elapsed(now))) for row in jobs],
        series=series(),
    )


def _steps(rows: Sequence[Mapping[str, Any]], step: int, now: datetime) -> list[Step]:
    over = now - timedelta(seconds=step)
    steps = []
    for row in rows:
        at = row["at"].astimezone(UTC)  # in a session's own zone an hour may come twice
        elapsed = step if at <= over else max(1.0, (now - at).total_seconds())
        steps.append(Step(at, _activity(row, elapsed)))
    return steps


def _oldest(depths: Sequence[QueueDepth]) -> float | None:
    ages = [it.oldest_seconds for it in depths if it.oldest_seconds is not None]
    return max(ages, default=None)


def _range(window: Window) -> dict[str, Any]:
    return {"since": window.since, "until": window.until, "unit": window.unit}


def _states(depths: Sequence[QueueDepth], ended: Mapping[str, int]) -> StateCounts:
    return StateCounts(
        blocked=sum(it.blocked for it in depths),
        scheduled=sum(it.scheduled for it in depths),
        queued=sum(it.queued for it in depths),
        running=sum(it.running for it in depths),
        **ended,
    )


def _activity(row: Mapping[str, Any], seconds: float) -> Activity:
    """There may be a step for every minute of a day: this is most of what Python does."""
    attempts, succeeded, longest = row["attempts"], row["succeeded"], row["longest_ms"]
    if not attempts:
        return Activity(0, 0, 0, 0, 0, 0, 0.0, None, None, None, None, None, None)
    failed, timed_out = row["failed"], row["timed_out"]
    bad = failed + timed_out
    found = quantiles(row["histogram"], attempts, _SHARES, longest / 1000)
    p99, p95, p50 = [None if it is None else it * 1000 for it in found]
    return Activity(
        attempts=attempts,
        succeeded=succeeded,
        failed=failed,
        timed_out=timed_out,
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
